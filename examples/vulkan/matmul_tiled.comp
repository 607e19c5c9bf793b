#version 450
// C = A · B, with A of m × k, B of k × n and C of m × n floats, row by row in memory.
// A group of TILE × TILE threads computes one tile of C. It walks along k and keeps the two tiles that it needs in
// shared memory, so a group reads each float from global memory once.
#ifndef TILE
#define TILE 16
#endif
layout(local_size_x = TILE, local_size_y = TILE) in;

layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Sizes { int m, n, k; };

shared float tile_a[TILE][TILE];
shared float tile_b[TILE][TILE];

void main()
{
    const uint tx = gl_LocalInvocationID.x;
    const uint ty = gl_LocalInvocationID.y;
    const uint column = gl_GlobalInvocationID.x;
    const uint row = gl_GlobalInvocationID.y;

    float sum = 0.0;
    for (uint start = 0; start < k; start += TILE) {
        // Beyond the edges a tile is filled with zeros: m, n and k need not be multiples of TILE.
        tile_a[ty][tx] = row < m && start + tx < k ? a[row * k + start + tx] : 0.0;
        tile_b[ty][tx] = start + ty < k && column < n ? b[(start + ty) * n + column] : 0.0;
        barrier();
        for (uint i = 0; i < TILE; i++)
            sum += tile_a[ty][i] * tile_b[i][tx];
        barrier();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}
