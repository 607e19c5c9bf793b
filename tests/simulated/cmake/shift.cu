// The last thread reads beyond the end.
#include <cstdio>

__global__ void shift(float *y, const float *x)
{
    int i = threadIdx.x;
    y[i] = x[i + 1];
}

int main()
{
    float *x, *y;
    cudaMalloc(&x, 64 * sizeof(float));
    cudaMalloc(&y, 64 * sizeof(float));
    cudaMemset(x, 0, 64 * sizeof(float));
    shift<<<1, 64>>>(y, x);
    cudaError_t error = cudaDeviceSynchronize();
    std::puts(cudaGetErrorString(error));
    return error != cudaSuccess;
}
