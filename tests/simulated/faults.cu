// Seven faults, those of NVIDIA's samples for compute-sanitizer. With an argument the kernels have
// none of them. A comment at the end of a line is the kind of the report there.
#include <cstdio>

enum { WARP = 32, THREADS = 64, STEPS = 4, ELEMENTS = THREADS * STEPS - 16 };

__device__ int counters[4];

template <bool WRONG> __global__ void count()
{
    char *place = reinterpret_cast<char *>(counters) + (WRONG ? 6 : 4);
    *reinterpret_cast<int *>(place) = 1;  // misaligned (write)
}

__device__ void store(int *place)
{
    *place = 7;  // out of bounds (write)
}

template <bool WRONG> __global__ void follow(int *memory)
{
    store(WRONG ? reinterpret_cast<int *>(0x7654320) : memory);
}

template <bool WRONG> __global__ void sum_of_block(const int *x, int *sum)
{
    __shared__ int tile[THREADS];
    tile[threadIdx.x] = x[threadIdx.x];
    if (!WRONG)
        __syncthreads();
    if (threadIdx.x == 0) {
        *sum = 0;
        for (int i = 0; i < THREADS; i++)
            *sum += tile[i];  // race (read and write)
    }
}

template <bool WRONG> __global__ void sums_of_warps(const int *x, int *sums)
{
    __shared__ int tile[THREADS];
    int warp = threadIdx.x / WARP;
    tile[threadIdx.x] = x[threadIdx.x];
    if (!WRONG)
        __syncwarp();
    if (threadIdx.x % WARP == 0) {
        sums[warp] = 0;
        for (int i = 0; i < WARP; i++)
            sums[warp] += tile[warp * WARP + i];  // race (read and write)
    }
}

template <bool WRONG> __global__ void columns(const int *x, int *sums)
{
    __shared__ int tile[THREADS];
    tile[threadIdx.x] = 0;
    __syncthreads();
    for (int step = 0; step < STEPS; step++) {
        int at = step * THREADS + threadIdx.x;
        if (at < ELEMENTS) {
            tile[threadIdx.x] += x[at];
            if (WRONG)
                __syncthreads();  // divergent barrier
        }
        if (!WRONG)
            __syncthreads();
    }
    sums[threadIdx.x] = tile[threadIdx.x];
}

template <bool WRONG> __global__ void half_a_warp(int *sum)
{
    __shared__ int tile[WARP];
    unsigned mask = __ballot_sync(0xffffffff, threadIdx.x < WARP / 2);
    if (threadIdx.x < WARP / 2 + (WRONG ? 1 : 0)) {
        tile[threadIdx.x] = threadIdx.x;
        __syncwarp(mask);  // lane outside of its mask
        if (threadIdx.x == 0)
            *sum = tile[0] + tile[WARP / 2 - 1];
    }
    __syncthreads();
}

__global__ void increase(int *x)
{
    x[threadIdx.x] += 1;  // uninitialised (stored result)
}

template <bool WRONG> void run()
{
    int *x, *result, *cleared;
    cudaMalloc(&x, ELEMENTS * sizeof(int));
    cudaMalloc(&result, THREADS * sizeof(int));
    cudaMalloc(&cleared, THREADS * sizeof(int));
    cudaMemset(x, 0, ELEMENTS * sizeof(int));
    cudaMemset(cleared, 0, WRONG ? THREADS : THREADS * sizeof(int));
    count<WRONG><<<1, 1>>>();
    follow<WRONG><<<1, 1>>>(result);
    sum_of_block<WRONG><<<1, THREADS>>>(x, result);
    sums_of_warps<WRONG><<<1, THREADS>>>(x, result);
    columns<WRONG><<<1, THREADS>>>(x, result);
    half_a_warp<WRONG><<<1, WARP>>>(result);
    increase<<<1, THREADS>>>(cleared);
    std::puts(cudaGetErrorString(cudaDeviceSynchronize()));
}

int main(int count, char **)
{
    if (count > 1)
        run<false>();
    else
        run<true>();
    return 0;
}
