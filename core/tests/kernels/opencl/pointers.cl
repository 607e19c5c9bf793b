// What a pointer can point to, and how it can be written.
typedef float real;
typedef __global const real *restrict input;

struct later;

__kernel void pointers(input a, volatile __global int *counter, __constant uchar *table, __local float4 *tile, __local struct later *opaque,
                       __global void *raw, __global float (*rows)[8], const __global ulong *const fixed, __global half *halves,
                       __global atomic_uint *tickets) {
  atomic_inc(counter);
}
