#version 450
layout(local_size_x = 8) in;
layout(binding = 0) readonly buffer V { int values[]; };
layout(binding = 1) buffer C { uint counts[]; };
layout(set = 1, binding = 2) uniform P { int n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) atomicAdd(counts[values[i] & 7], 1); }
