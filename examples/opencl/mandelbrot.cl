// The escape time of z → z² + c for the c of each pixel: the number of steps, with a fraction so that colours have no bands. It is 0
// for a c that has not escaped after `steps`.
// The reference in NumPy takes the same steps. Contraction into fused multiply-adds would change the counts near the border of the
// set.
#pragma OPENCL FP_CONTRACT OFF

__kernel void mandelbrot(__global float *escape, const int width, const int height, const float left, const float top,
                         const float pixel, const int steps)
{
    const int column = get_global_id(0);
    const int row = get_global_id(1);
    if (column >= width || row >= height)
        return;
    const float cx = left + column * pixel;
    const float cy = top - row * pixel;
    float x = 0.0f, y = 0.0f;
    float time = 0.0f;
    for (int step = 1; step <= steps; step++) {
        const float next_x = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = next_x;
        const float square = x * x + y * y;
        if (square > 256.0f) {
            time = step + 1.0f - log2(0.5f * log2(square));
            break;
        }
    }
    escape[row * width + column] = time;
}
