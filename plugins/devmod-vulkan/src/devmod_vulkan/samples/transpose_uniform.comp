#version 450
layout(local_size_x = 4, local_size_y = 4) in;
layout(binding = 0) buffer F { float from[]; };
layout(binding = 1) buffer T { float to[]; };
layout(std140, binding = 2) uniform P { layout(offset = 0) int width; layout(offset = 8) int height; };
shared float tile[4][4];
void main() {
    uvec2 here = gl_LocalInvocationID.xy, at = gl_WorkGroupID.xy * 4;
    if (at.x + here.x < width && at.y + here.y < height) tile[here.y][here.x] = from[(at.y + here.y) * width + at.x + here.x];
    barrier();
    if (at.y + here.x < height && at.x + here.y < width) to[(at.x + here.y) * height + at.y + here.x] = tile[here.x][here.y];
}
