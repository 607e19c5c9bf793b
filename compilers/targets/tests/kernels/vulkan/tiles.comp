#version 450
#extension GL_GOOGLE_include_directive : require
#include "tile.h"
#ifdef WITH_BIAS
#include "bias.h"
#endif
layout(local_size_x = TILE) in;
layout(binding = 0) buffer Y { float y[]; };
void main() {
    y[gl_GlobalInvocationID.x] = tile_scale() * float(SCALE);
}
