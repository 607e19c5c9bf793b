// The escape time of z → z² + c for the c of each pixel: the number of steps, with a fraction so that colours have no bands. It is 0
// for a c that has not escaped after `steps`.
#include <hip/hip_runtime.h>

// The reference in NumPy takes the same steps. Fused multiply-adds would change the counts near the border of the set.
#pragma clang fp contract(off)

extern "C" __global__ void mandelbrot(
    float *escape, const int width, const int height, const float left, const float top, const float pixel, const int steps)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height)
        return;
    const float cx = left + column * pixel, cy = top - row * pixel;
    float x = 0, y = 0, time = 0;
    for (int step = 1; step <= steps; step++) {
        const float next_x = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next_x;
        const float square = x * x + y * y;
        if (square > 256) {
            time = step + 1 - log2f(0.5f * log2f(square));
            break;
        }
    }
    escape[row * width + column] = time;
}
