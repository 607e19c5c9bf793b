#version 450
// Matrices and arrays of arrays: what repeats without gaps, and what does not.
#extension GL_EXT_scalar_block_layout : require
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer A { mat4 a[]; };
layout(std430, binding = 1) buffer B { mat3 b[]; };
layout(std430, binding = 2) buffer C { mat2 c[]; };
layout(std430, row_major, binding = 3) buffer D { mat3x4 d[]; };
layout(std430, binding = 4) buffer E { float e[][4][2]; };
layout(std140, binding = 5) buffer F { float f[]; };
layout(scalar, binding = 6) buffer G { vec3 g[]; };
layout(std430, binding = 7) buffer H { vec3 h[]; };
layout(std430, binding = 8) buffer I { dmat2 i[]; };
layout(std430, binding = 9) buffer J { vec3 j; float k; };
void main() {
    a[0] = mat4(1.0); b[0] = mat3(1.0); c[0] = mat2(1.0); d[0] = mat3x4(1.0); e[0][1][1] = f[1]; g[0] = h[0]; i[0] = dmat2(1.0); k = j.x;
}
