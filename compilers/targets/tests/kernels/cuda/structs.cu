// Structs by value: padding, nesting, arrays, unions, bit-fields, pointers, bases, packed and aligned ones.
#include <cuda_fp16.h>

struct Padded { char tag; double value; int counts[3]; };
struct Inner { short a; half h; };
struct Outer { Inner one; Inner many[2]; float4 v; float3 w[2]; };
union Word { int number; float real; };
struct HasUnion { int n; Word word; };
struct Bits { unsigned a : 3, b : 5; int c; };
struct View { float *data; const int *index; size_t n; };
struct Base { int base; };
struct Derived : Base { float own; };
struct __attribute__((packed)) Packed { char a; int b; };
struct alignas(32) Aligned { float x; };
struct Anonymous { struct { int x, y; }; int z; };
struct Flags { bool on; Padded *next; enum { P, Q } mode; };
struct Empty {};
template <class T, int N> struct Array { T items[N]; int size; };
class Functor {
public:
  __device__ float operator()(float x) const { return scale * x; }
private:
  float scale;
};

extern "C" __global__ void layouts(Padded a, Outer b, Word c, HasUnion d, Bits e, View f, Derived g, Packed h, Aligned i, Anonymous j, Flags k,
                                   const __grid_constant__ Padded l, float *out) {
  *out = a.value + b.v.x + c.number + d.n + e.c + f.data[0] + g.own + h.b + i.x + j.z + k.on + l.tag;
}

extern "C" __global__ void classes(Empty e, Array<half, 3> a, Functor f, float *out) { *out = f(__half2float(a.items[1])); }
