#version 450
layout(local_size_x = 16) in;
layout(binding = 0) buffer X { uint x[]; };
layout(push_constant) uniform P { int n; };
void main() {
    uint value = x[gl_GlobalInvocationID.x];
    for (int i = 0; i < n; i++) value = value * 1664525u + 1013904223u;
    x[gl_GlobalInvocationID.x] = value;
}
