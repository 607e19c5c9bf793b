// The directives of a kernel's launch. `__block_size__` and clusters need sm_90.
struct Record { char tag; double value; int counts[3]; };
union Word { int number; float real; };
struct __align__(128) Line { char bytes[128]; };

__device__ int counter[7];

extern "C" __global__ void plain(const float *a, float *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = 2 * a[i];
}

extern "C" __global__ void __launch_bounds__(256, 2) bounded(float *a, char x, short y, bool z, Record r, Word w) {
  extern __shared__ float scratch[];
  scratch[threadIdx.x] = x + y + z + r.value + w.real;
  __syncthreads();
  a[threadIdx.x] = scratch[255 - threadIdx.x];
}

__global__ void shifted(const __grid_constant__ Line line, long long address, float4 v) {
  if (address) ((float *)address)[0] = line.bytes[3] + v.x;
}

extern "C" __global__ void nothing() {}

static __device__ __noinline__ void add_to_counter(int n) {
  extern __shared__ float amounts[];
  for (int i = 0; i < n; i++) atomicAdd(&counter[i % 7], (int)amounts[i]);
}

extern "C" __global__ void calls(int n) {
  add_to_counter(n);
  add_to_counter(n + 1);
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __block_size__((64, 2, 1)) fixed(float *a) { a[threadIdx.x] = 1; }
extern "C" __global__ void __block_size__((64, 2, 1), (2, 2, 1)) fixed_cluster(float *a) { a[threadIdx.x] = 1; }
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster(float *a) { a[threadIdx.x] = 1; }
extern "C" __global__ void __launch_bounds__(128, 1, 4) small_cluster(float *a) { a[threadIdx.x] = 1; }
#endif
