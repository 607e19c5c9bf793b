// Sum of n floats. Each group adds the part that its threads stride over, and writes one partial sum. A second launch with one group
// adds those. `scratch` has one float for each thread, and the number of threads in a group is a power of two.
__kernel __attribute__((work_group_size_hint(128, 1, 1)))
void sum(__global const float *x, __global float *partial, const int n, __local float *scratch)
{
    const int thread = get_local_id(0);
    float own = 0.0f;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        own += x[i];
    scratch[thread] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int stride = get_local_size(0) / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] += scratch[thread + stride];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (thread == 0)
        partial[get_group_id(0)] = scratch[0];
}
