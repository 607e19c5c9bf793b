// What nvcc makes of a program: managed, constant and static variables, templates, launches within
// the arguments of launches, threads, and objects that end after main.
#include <cstdio>
#include <thread>

__managed__ int counter = 5;
__managed__ float pair[2] = {1.5f, 2.5f};
__constant__ int factor = 3;
static __device__ int table[4] = {1, 2, 3, 4};

template <class T> __global__ void scale(T *values, T by) { values[threadIdx.x] *= by; }

static __global__ void count(int by) {
    extern __shared__ int shared[];
    shared[threadIdx.x] = by * factor;
    __syncthreads();
    atomicAdd(&counter, shared[blockDim.x - 1 - threadIdx.x]);
    table[threadIdx.x % 4] += by;
}

static int launched(int by) {
    count<<<1, 2, 8>>>(by);
    return by + 1;
}

struct Last {
    int *memory = nullptr;
    ~Last() { printf("last %s\n", cudaGetErrorName(cudaFree(memory))); }
} last;

int main() {
    printf("before %d %g\n", counter, pair[1]);
    counter = 100;
    count<<<1, 4, launched(1) * 8>>>(launched(10));
    printf("launched %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    printf("counter %d\n", counter);

    int own[4], three = 30;
    cudaMemcpyFromSymbol(own, table, sizeof own);
    printf("table %d %d %d %d\n", own[0], own[1], own[2], own[3]);
    cudaMemcpyToSymbol(factor, &three, sizeof three);
    cudaDeviceSynchronize(); // the default stream of another thread may be its own
    std::thread([] { count<<<1, 1, 4>>>(1); }).join();
    scale<<<1, 2>>>(pair, 2.0f);
    cudaDeviceSynchronize();
    printf("thread %d, pair %g %g\n", counter, pair[0], pair[1]);

    count<<<1, 2048>>>(1);
    cudaError_t error = cudaGetLastError();
    printf("%d %s: %s\n", error, cudaGetErrorName(error), cudaGetErrorString(error));
    printf("large %s", cudaGetErrorName(cudaFuncSetAttribute(
                           count, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10)));
    count<<<1, 1, 100 << 10>>>(1);
    printf(" %s\n", cudaGetErrorName(cudaGetLastError()));
    cudaMalloc(&last.memory, 64);
}
