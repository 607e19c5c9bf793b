kernel void f(device float *x [[buffer(0)]]) { x[0] = 1; }
