#version 450
// Return the part of the texels that are as dark as each level, or darker: a running sum, in one block.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer Counts { uint counts[]; };
layout(set = 0, binding = 1) writeonly buffer Table { float table[]; };
layout(push_constant) uniform Sizes { int texels; };
shared uint sums[256];

void main()
{
    const int level = int(gl_LocalInvocationID.x);
    sums[level] = counts[level];
    barrier();
    for (int distance = 1; distance < 256; distance *= 2) {
        const uint other = level >= distance ? sums[level - distance] : 0;
        barrier();
        sums[level] += other;
        barrier();
    }
    table[level] = float(sums[level]) / texels;
}
