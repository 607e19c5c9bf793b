// Sum of n floats. Each group adds up the part that its threads stride over and writes one partial sum; a second
// launch with a single group adds those up. `scratch` holds one float for each thread (devmod.Local(4 * threads));
// the number of threads in a group is a power of two.
__kernel void sum(__global const float *x, __global float *partial, const int n, __local float *scratch)
{
    const int thread = get_local_id(0);
    float own = 0.0f;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        own += x[i];
    scratch[thread] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_of = get_local_size(0) / 2; half_of > 0; half_of /= 2) {
        if (thread < half_of)
            scratch[thread] += scratch[thread + half_of];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (thread == 0)
        partial[get_group_id(0)] = scratch[0];
}
