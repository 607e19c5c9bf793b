#version 450
// Softmax over the rows of a matrix. One group works on one row: its threads stride along the row, then add up
// what they found in shared memory.
layout(local_size_x = 64) in;

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Sizes { int columns; };

shared float scratch[gl_WorkGroupSize.x];

void main()
{
    const uint thread = gl_LocalInvocationID.x;
    const uint threads = gl_WorkGroupSize.x;
    const uint row = gl_WorkGroupID.x * columns;

    // The row's maximum: exp(x - max) cannot overflow.
    float highest = x[row];
    for (uint i = thread; i < columns; i += threads)
        highest = max(highest, x[row + i]);
    scratch[thread] = highest;
    barrier();
    for (uint half_of = threads / 2; half_of > 0; half_of /= 2) {
        if (thread < half_of)
            scratch[thread] = max(scratch[thread], scratch[thread + half_of]);
        barrier();
    }
    highest = scratch[0];
    barrier(); // everyone has read it before scratch is written again

    float sum = 0.0;
    for (uint i = thread; i < columns; i += threads) {
        const float e = exp(x[row + i] - highest);
        y[row + i] = e;
        sum += e;
    }
    scratch[thread] = sum;
    barrier();
    for (uint half_of = threads / 2; half_of > 0; half_of /= 2) {
        if (thread < half_of)
            scratch[thread] += scratch[thread + half_of];
        barrier();
    }

    const float scale = 1.0 / scratch[0];
    for (uint i = thread; i < columns; i += threads)
        y[row + i] *= scale;
}
