#version 450
layout(local_size_x = 256) in;
layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { float alpha; uint n; } push;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.n) y[i] = push.alpha * x[i] + y[i];
}
