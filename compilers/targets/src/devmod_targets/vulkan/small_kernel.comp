#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer X { float x[]; };
void main() { x[0] = 1; }
