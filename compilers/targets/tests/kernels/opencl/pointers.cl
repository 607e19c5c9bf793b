//devmod: -cl-std=CL2.0
// What a pointer can point to, and how it can be written.
typedef float real;
typedef __global const real *restrict input;

struct later;

__kernel void pointers(input a, volatile __global int *counter, __constant uchar *table, __local float4 *tile, __local struct later *opaque,
                       __global void *raw, __global float (*rows)[8], const __global ulong *const fixed, __global half *halves,
                       __global atomic_uint *tickets) {
  atomic_inc(counter);
}

// A parameter declared as an array is a pointer.
__kernel void arrays(__global float x[], __constant int table[4], __local float tile[16], __global const uint rows[2][8]) { x[0] = table[3]; }
