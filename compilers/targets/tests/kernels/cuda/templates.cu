// Templates whose arguments are values, enums, templates, packs and functions, and types that depend on them.
#include <cuda_fp16.h>

enum class Op { Add, Mul };
template <class T> struct Box { T v; };
template <class... Ts> struct Tuple {};
struct Traits { using type = float; struct other { int z; }; };
struct Pair { int a, b; };
__device__ int twice(int x) { return 2 * x; }

template <Op op, class T> __global__ void apply(T *x) { x[0] = op == Op::Add ? x[0] + x[1] : x[0] * x[1]; }
template <auto N, class T> __global__ void fill(T (&x)[N], int n) { x[0] = n; }
template <template <class> class C, class T> __global__ void unwrap(C<T> c, T *p) { p[0] = c.v; }
template <class A, class... Bs> __global__ void zip(Tuple<A, Bs...> a, Bs *...b) {}
template <int (*F)(int)> __global__ void map(int *p) { p[0] = F(p[1]); }
template <class T> __global__ void dependent(typename T::type *p, const typename T::other &q, T) { p[0] = 1; }
template <long long V, unsigned char C, bool B> __global__ void numbers(int *p) { p[0] = V + C + B; }
template <class T> __global__ void member(int T::*m, T *t) { t->*m = 1; }
template <class T> __global__ void overloaded(T *p, int n) { p[0] = n; }
template <class T> __global__ void overloaded(T *p) { p[0] = 1; }
template <> __global__ void overloaded<int>(int *special) { *special = 3; }

namespace outer { namespace inner { template <class T> __global__ void nested(T t, Pair p, const T *q) {} } }
template __global__ void outer::inner::nested<Pair>(Pair, Pair, const Pair *);
template __global__ void outer::inner::nested<const half *>(const half *, Pair, const half *const *);
