#version 450
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform P { float a; int n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] += a * x[i]; }
