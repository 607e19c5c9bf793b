// What both passes of the blur share: a Gaussian is separable, so that blurring along the rows and then along the
// columns costs 2 · (2 · radius + 1) reads a pixel instead of (2 · radius + 1)². Between the two the picture is kept in
// floats. `weights` holds the 2 · radius + 1 weights, which sum to one. Beyond its edges the picture goes on with the
// pixel at the edge.
layout(local_size_x = 16, local_size_y = 16) in;

layout(set = 0, binding = 2) readonly buffer Weights { float weights[]; };
layout(push_constant) uniform Sizes { int radius, width, height; };

int at(int x, int y)
{
    return clamp(y, 0, height - 1) * width + clamp(x, 0, width - 1);
}
