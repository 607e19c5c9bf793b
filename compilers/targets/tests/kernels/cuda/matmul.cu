// Matrix products: one thread for each element, tiles in shared memory, half with float sums, and tensor cores.
#include <cuda_fp16.h>
#include <mma.h>

constexpr int TILE = 16;

extern "C" __global__ void matmul_plain(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || col >= n) return;
  float sum = 0;
  for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + col];
  c[row * n + col] = sum;
}

template <typename T, typename Sum>
__global__ void __launch_bounds__(TILE * TILE) matmul_tiled(const T *a, const T *b, T *c, int n, Sum alpha) {
  __shared__ T left[TILE][TILE], right[TILE][TILE + 1];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  Sum sum = 0;
  for (int tile = 0; tile < (n + TILE - 1) / TILE; tile++) {
    int x = tile * TILE + threadIdx.x, y = tile * TILE + threadIdx.y;
    left[threadIdx.y][threadIdx.x] = row < n && x < n ? a[row * n + x] : T(0);
    right[threadIdx.y][threadIdx.x] = col < n && y < n ? b[y * n + col] : T(0);
    __syncthreads();
    for (int i = 0; i < TILE; i++) sum += Sum(left[threadIdx.y][i]) * Sum(right[i][threadIdx.x]);
    __syncthreads();
  }
  if (row < n && col < n) c[row * n + col] = T(alpha * sum);
}

extern "C" __global__ void matmul_tensor_cores(const half *a, const half *b, float *c, int n) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  int row = blockIdx.y * 16, col = blockIdx.x * 16;
  for (int i = 0; i < n; i += 16) {
    wmma::load_matrix_sync(left, a + row * n + i, n);
    wmma::load_matrix_sync(right, b + i * n + col, n);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
}
