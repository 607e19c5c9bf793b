#version 450
// The escape time of z → z² + c for the c of each pixel: the number of steps, with a fraction so that colours have no bands. It is 0
// for a c that has not escaped after `steps`.
// The reference in NumPy takes the same steps. Contraction into fused multiply-adds would change the counts near the border of the
// set; `precise` excludes it.
layout(local_size_x = 16, local_size_y = 16) in;

layout(set = 0, binding = 0) writeonly buffer Escape { float escape[]; };
layout(push_constant) uniform View { int width, height; float left, top, pixel; int steps; };

void main()
{
    const int column = int(gl_GlobalInvocationID.x);
    const int row = int(gl_GlobalInvocationID.y);
    if (column >= width || row >= height)
        return;
    precise const float cx = left + column * pixel;
    precise const float cy = top - row * pixel;
    precise float x = 0.0, y = 0.0, square;
    float time = 0.0;
    for (int step = 1; step <= steps; step++) {
        precise const float next_x = x * x - y * y + cx;
        y = 2.0 * x * y + cy;
        x = next_x;
        square = x * x + y * y;
        if (square > 256.0) {
            time = step + 1.0 - log2(0.5 * log2(square));
            break;
        }
    }
    escape[row * width + column] = time;
}
