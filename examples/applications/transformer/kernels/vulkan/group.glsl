// A group of THREADS threads, and what it computes together. In a kernel with a group for each row, the group goes on with the row that
// is as many rows later as there are groups.
#define THREADS 64

layout(local_size_x = THREADS) in;

shared float scratch[THREADS];

// The sum of `value` over the threads of the group.
float sum_of_group(float value)
{
    const uint thread = gl_LocalInvocationID.x;
    scratch[thread] = value;
    barrier();
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] += scratch[thread + stride];
        barrier();
    }
    const float sum = scratch[0];
    barrier(); // all threads read it before one writes scratch again
    return sum;
}

// The maximum of `value` over the threads of the group.
float max_of_group(float value)
{
    const uint thread = gl_LocalInvocationID.x;
    scratch[thread] = value;
    barrier();
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] = max(scratch[thread], scratch[thread + stride]);
        barrier();
    }
    const float highest = scratch[0];
    barrier();
    return highest;
}
