// Sums: a tree in dynamic shared memory, shuffles in a warp, atomics, and a scan of blocks.
extern "C" __global__ void sum_tree(const float *in, float *out, unsigned int n) {
  extern __shared__ float partial[];
  unsigned int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
  float value = i < n ? in[i] : 0.0f;
  if (i + blockDim.x < n) value += in[i + blockDim.x];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned int step = blockDim.x / 2; step > 0; step >>= 1) {
    if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

__device__ __forceinline__ double warp_sum(double value) {
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(0xffffffff, value, offset);
  return value;
}

extern "C" __global__ void dot(const double *x, const double *y, double *result, size_t n) {
  double sum = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)blockDim.x * gridDim.x) sum += x[i] * y[i];
  sum = warp_sum(sum);
  if (threadIdx.x % warpSize == 0) atomicAdd(result, sum);
}

extern "C" __global__ void histogram(const unsigned char *__restrict__ pixels, unsigned int *bins, unsigned int count) {
  __shared__ unsigned int local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) atomicAdd(&local[pixels[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

template <int BLOCK> __global__ void __launch_bounds__(BLOCK) scan_block(const int *in, int *out, int *sums, int n) {
  __shared__ int values[2][BLOCK];
  int i = blockIdx.x * BLOCK + threadIdx.x, side = 0;
  values[0][threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (int offset = 1; offset < BLOCK; offset *= 2) {
    values[1 - side][threadIdx.x] = values[side][threadIdx.x] + (threadIdx.x >= offset ? values[side][threadIdx.x - offset] : 0);
    side = 1 - side;
    __syncthreads();
  }
  if (i < n) out[i] = values[side][threadIdx.x];
  if (threadIdx.x == BLOCK - 1 && sums) sums[blockIdx.x] = values[side][threadIdx.x];
}
template __global__ void scan_block<256>(const int *in, int *out, int *sums, int n);
