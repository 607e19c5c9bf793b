// Layers of networks: softmax, layer norm, activations of several types, attention, an embedding, rotations, quantization.
#include <cstdint>
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace layers {
struct Relu { template <typename T> __device__ T operator()(T x) const { return x > T(0) ? x : T(0); } };
struct Scale { float factor; template <typename T> __device__ T operator()(T x) const { return T(float(x) * factor); } };

template <typename T, typename Function> __global__ void activate(const T *in, T *out, int64_t n, Function function) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) out[i] = function(in[i]);
}

template <typename T> __global__ void layer_norm(T *__restrict__ out, const T *__restrict__ in, const T *weight, const T *bias, int width, float eps) {
  __shared__ float mean, scale;
  if (threadIdx.x == 0) {
    float sum = 0, squares = 0;
    for (int i = 0; i < width; i++) sum += float(in[i]), squares += float(in[i] * in[i]);
    mean = sum / width;
    scale = rsqrtf(squares / width - mean * mean + eps);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    out[blockIdx.x * width + i] = T((float(in[blockIdx.x * width + i]) - mean) * scale * float(weight[i]) + float(bias[i]));
}
}

extern "C" __global__ void softmax(const float *in, float *out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float most = -1e30f, sum = 0;
  for (int i = 0; i < cols; i++) most = fmaxf(most, in[row * cols + i]);
  for (int i = 0; i < cols; i++) sum += expf(in[row * cols + i] - most);
  for (int i = 0; i < cols; i++) out[row * cols + i] = expf(in[row * cols + i] - most) / sum;
}

extern "C" __global__ void embed(const std::int32_t *tokens, const __nv_bfloat16 *table, __nv_bfloat16 *out, std::uint32_t width) {
  for (std::uint32_t i = threadIdx.x; i < width; i += blockDim.x) out[blockIdx.x * width + i] = table[tokens[blockIdx.x] * width + i];
}

extern "C" __global__ void rotate(cuda::std::complex<float> *p, cuda::std::complex<double> z, cuda::std::array<float, 4> a, cuda::std::uint16_t *q, cuda::std::int64_t n) { p[q[n]] *= a[0]; }

extern "C" __global__ void quantize(const half2 *in, __nv_fp8x2_e4m3 *out, const float *__restrict__ scale, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __nv_fp8x2_e4m3(__half22float2(in[i]));
}
