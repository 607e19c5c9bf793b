// Names: namespaces, extern "C" in a namespace, overloads, macros that define kernels, static ones, templates, prototypes.
#define KERNEL extern "C" __global__ void
#define MAKE(name, T) __global__ void name##_##T(T *p, T value) { *p = value; }

namespace image {
namespace filters {
__global__ void blur(const float *in, float *out) { *out = *in; }
}
inline namespace v2 {
__global__ void sharpen(float *p) { *p = 2; }
}
extern "C" __global__ void plain_in_namespace(float *p) { *p = 1; }
namespace {
__global__ void hidden(float *p) { *p = 3; }
}
}

__global__ void over(int *p) { *p = 1; }
__global__ void over(float *p, int n) { *p = n; }

MAKE(set, int)
MAKE(set, double)

static __global__ void internal(int *p) { *p = 4; }

__global__ void declared_before(int *first, const float *second);
__global__ void declared_before(int *p, const float *q) { *p = *q; }

KERNEL by_macro(float *p) { *p = 5; }

__global__ void defaults(float *p, int n = 4, float scale = 1.5f) { *p = n * scale; }

extern "C" __global__ auto trailing(int *p) -> void { *p = 6; }

[[maybe_unused]] __global__ void __launch_bounds__(64) attributes([[maybe_unused]] int n, float *p) { *p = 7; }

template <class T, int N = 4> __global__ void scale(T *data, const T factor, int n) {
  for (int i = 0; i < n * N; i++) data[i] *= factor;
}
template <class T> struct Traits { using type = T; };
template <> struct Traits<float> { using type = double; };
template <class T> __global__ void convert(typename Traits<T>::type *out, const T *in, Traits<T> traits) { *out = *in; }
template <class... Ts> __global__ void many(float *out, Ts... values) { *out = (... + values); }
template __global__ void scale<double, 2>(double *, const double, int);
namespace image {
template <class T> __global__ void fill(T *p, T value) { *p = value; }
}
