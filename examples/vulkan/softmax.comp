#version 450
// Softmax over the rows of a matrix. One group works on one row: each of its threads strides along the row, then the
// group reduces the results of its threads in `scratch`.
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
    for (uint stride = threads / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] = max(scratch[thread], scratch[thread + stride]);
        barrier();
    }
    highest = scratch[0];
    barrier(); // all threads read it before one writes scratch again

    float sum = 0.0;
    for (uint i = thread; i < columns; i += threads) {
        const float e = exp(x[row + i] - highest);
        y[row + i] = e;
        sum += e;
    }
    scratch[thread] = sum;
    barrier();
    for (uint stride = threads / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] += scratch[thread + stride];
        barrier();
    }

    const float scale = 1.0 / scratch[0];
    for (uint i = thread; i < columns; i += threads)
        y[row + i] *= scale;
}
