// The part that both passes of the blur share. A Gaussian is separable: two passes, along the rows and along the columns, read
// 2 · (2 · radius + 1) pixels instead of (2 · radius + 1)². The picture between them is in floats. `weights` has the 2 · radius + 1
// weights, whose sum is one. The pixel at an edge continues beyond it.
layout(local_size_x = 16, local_size_y = 16) in;

layout(set = 0, binding = 2) readonly buffer Weights { float weights[]; };
layout(push_constant) uniform Sizes { int radius, width, height; };

int at(int x, int y)
{
    return clamp(y, 0, height - 1) * width + clamp(x, 0, width - 1);
}
