// Kernels for the reader of clspv's SPIR-V and for its launches. make.py compiles them to kernels.spv.

typedef struct {
    float numbers[40];
} Table;

constant sampler_t nearest =
    CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
constant sampler_t linear =
    CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_MIRRORED_REPEAT | CLK_FILTER_LINEAR;
constant sampler_t repeating =
    CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_REPEAT | CLK_FILTER_NEAREST;
constant sampler_t bordered =
    CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;

// A dot product with a tree of sums in local memory: wrong unless the block and the memory have the sizes of the call.
kernel void dot_parts(global const float *x, global const float *y, global float *parts, const int n,
                      local float *scratch)
{
    const int thread = get_local_id(0);
    float own = 0.0f;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        own += x[i] * y[i];
    scratch[thread] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int stride = get_local_size(0) / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] += scratch[thread + stride];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (thread == 0)
        parts[get_group_id(0)] = scratch[0];
}

kernel __attribute__((reqd_work_group_size(4, 2, 1))) void fixed_block(global int *x, const int step)
{
    x[get_global_id(1) * get_global_size(0) + get_global_id(0)] = step * (int)get_local_size(0);
}

kernel void launch(global uint *x)
{
    x[0] = get_work_dim();
    x[1] = get_local_size(0);
    x[2] = get_local_size(1);
    x[3] = get_num_groups(1);
    x[4] = get_global_offset(0);
}

kernel void table(global float *x, const Table table, const int i)
{
    x[0] = table.numbers[i];
}

kernel void partly(global float *x, global const float *idle, const int number, local int *none)
{
    x[get_global_id(0)] = 3.0f;
}

kernel void texels(read_only image2d_t image, global float *x)
{
    x[0] = read_imagef(image, nearest, (float2)(-2.5f, 1.5f)).x;
    x[1] = read_imagef(image, linear, (float2)(-0.25f, 0.25f)).x;
    x[2] = read_imagef(image, repeating, (float2)(-0.125f, 0.125f)).x;
    x[3] = read_imagef(image, bordered, (float2)(-0.125f, 0.125f)).x;
}
