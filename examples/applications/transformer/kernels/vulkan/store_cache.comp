#version 450

layout(local_size_x = 64) in;

layout(set = 0, binding = 0) readonly buffer Key { float key[]; };
layout(set = 0, binding = 1) readonly buffer Value { float value[]; };
layout(set = 0, binding = 2) readonly buffer Position { int position[]; };
layout(set = 0, binding = 3) buffer Keys { float keys[]; };
layout(set = 0, binding = 4) buffer Values { float values[]; };
layout(push_constant) uniform Sizes { int size; };

void main()
{
    const uint i = gl_GlobalInvocationID.x;
    if (i >= size)
        return;
    keys[position[0] * size + i] = key[i];
    values[position[0] * size + i] = value[i];
}
