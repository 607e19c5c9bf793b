// It is right.
#include <cstdio>
#include <vector>

__global__ void scale(float *y, const float *x, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = factor * x[i];
}

int main()
{
    const int n = 1000;
    std::vector<float> x(n), y(n);
    for (int i = 0; i < n; i++)
        x[i] = i;
    float *in, *out;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMemcpy(in, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    scale<<<4, 256>>>(out, in, 2, n);
    cudaMemcpy(y.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost);
    std::printf("%s: %g %g\n", cudaGetErrorString(cudaGetLastError()), y[1], y[n - 1]);
    cudaFree(in);
    cudaFree(out);
    return y[1] != 2 || y[n - 1] != 2 * (n - 1);
}
