extern "C" __global__ void f(float *x) { x[0] = 1; }
