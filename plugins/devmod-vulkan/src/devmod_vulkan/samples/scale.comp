#version 450
layout(local_size_x = 32) in;
layout(binding = 0) buffer X { float x[]; };
void main() { x[gl_GlobalInvocationID.x] *= 3; }
