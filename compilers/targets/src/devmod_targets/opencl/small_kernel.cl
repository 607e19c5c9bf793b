__kernel void f(__global float *x) { x[0] = 1; }
