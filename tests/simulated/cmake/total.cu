// A barrier is missing before the loop. The result is right, by luck.
#include <cstdio>

__global__ void total(int *result)
{
    __shared__ int part[64];
    part[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < 64; i++)
            sum += part[i];
        *result = sum;
    }
}

int main()
{
    int *device, host = 0;
    cudaMalloc(&device, sizeof(int));
    total<<<1, 64>>>(device);
    cudaMemcpy(&host, device, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("%d\n", host);
    return host != 64 * 63 / 2;
}
