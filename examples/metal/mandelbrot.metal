//devmod: -fno-fast-math
// The escape time of z → z² + c for the c of each pixel: the number of steps, with a fraction so that colours have no bands. It is 0
// for a c that has not escaped after `steps`.
// The reference in NumPy takes the same steps. Contraction into fused multiply-adds would change the counts near the border of the
// set.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

kernel void mandelbrot(device float *escape [[buffer(0)]], constant int &width [[buffer(1)]], constant int &height [[buffer(2)]],
                       constant float &left [[buffer(3)]], constant float &top [[buffer(4)]], constant float &pixel [[buffer(5)]],
                       constant int &steps [[buffer(6)]], uint2 place [[thread_position_in_grid]])
{
    const int column = place.x, row = place.y;
    if (column >= width || row >= height)
        return;
    const float cx = left + float(column) * pixel;
    const float cy = top - float(row) * pixel;
    float x = 0.0f, y = 0.0f;
    float time = 0.0f;
    for (int step = 1; step <= steps; step++) {
        const float next_x = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = next_x;
        const float square = x * x + y * y;
        if (square > 256.0f) {
            time = step + 1.0f - precise::log2(0.5f * precise::log2(square));
            break;
        }
    }
    escape[row * width + column] = time;
}
