// Pictures: textures and surfaces by handle, pixels of four bytes, a filter in constant memory, the Mandelbrot set.
#include <cuComplex.h>

__constant__ float filter[9];

extern "C" __global__ void sobel(cudaTextureObject_t image, cudaSurfaceObject_t edges, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float gx = 0;
  for (int i = 0; i < 9; i++) gx += filter[i] * tex2D<float>(image, x + i % 3 - 1, y + i / 3 - 1);
  surf2Dwrite(gx, edges, x * 4, y);
}

extern "C" __global__ void to_gray(const uchar4 *__restrict__ rgba, unsigned char *gray, unsigned int count) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) gray[i] = (unsigned char)(0.299f * rgba[i].x + 0.587f * rgba[i].y + 0.114f * rgba[i].z);
}

extern "C" __global__ void mandelbrot(unsigned char *iterations, double2 corner, double step, ushort2 size, short limit) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= size.x || y >= size.y) return;
  cuDoubleComplex c = make_cuDoubleComplex(corner.x + x * step, corner.y + y * step), z = c;
  int n = 0;
  while (n < limit && z.x * z.x + z.y * z.y < 4) z = cuCadd(cuCmul(z, z), c), n++;
  iterations[y * size.x + x] = n;
}

extern "C" __global__ void rotate(cuFloatComplex *signal, const cuFloatComplex factor, const int (&range)[2]) {
  int i = range[0] + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < range[1]) signal[i] = cuCmulf(signal[i], factor);
}
