// The built-in functions of OpenCL C that libclc does not have. The file of the processor precedes it.

// -- the numbers of a thread

// As the kind opencl, which launches with the dimensions up to the last one of more than one thread.
uint DEVMOD_OV get_work_dim(void) { return get_num_groups(2) * get_local_size(2) > 1 ? 3 : get_num_groups(1) * get_local_size(1) > 1 ? 2 : 1; }
uint DEVMOD_OV get_sub_group_local_id(void) { return get_local_linear_id() % DEVMOD_LANES; }
uint DEVMOD_OV get_sub_group_id(void) { return get_local_linear_id() / DEVMOD_LANES; }
DEVMOD_INLINE uint devmod_threads(void) { return get_local_size(0) * get_local_size(1) * get_local_size(2); }
uint DEVMOD_OV get_max_sub_group_size(void) { return DEVMOD_LANES; }
uint DEVMOD_OV get_num_sub_groups(void) { return (devmod_threads() + DEVMOD_LANES - 1) / DEVMOD_LANES; }
uint DEVMOD_OV get_enqueued_num_sub_groups(void) { return get_num_sub_groups(); }
uint DEVMOD_OV get_sub_group_size(void)
{
    uint rest = devmod_threads() - get_sub_group_id() * DEVMOD_LANES;
    return rest < DEVMOD_LANES ? rest : DEVMOD_LANES;
}
size_t DEVMOD_OV get_local_linear_id(void)
{
    return (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0);
}
size_t DEVMOD_OV get_global_linear_id(void)
{
    return (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);
}

// -- address spaces. clang calls to_local by this name.

local void *__to_local(generic void *p) { return DEVMOD_IS_LOCAL(p) ? (local void *)p : 0; }
private void *__to_private(generic void *p) { return DEVMOD_IS_PRIVATE(p) ? (private void *)p : 0; }
global void *__to_global(generic void *p) { return DEVMOD_IS_LOCAL(p) || DEVMOD_IS_PRIVATE(p) ? 0 : (global void *)p; }
cl_mem_fence_flags DEVMOD_OV get_fence(generic void *p) { return DEVMOD_IS_LOCAL(p) ? CLK_LOCAL_MEM_FENCE : CLK_GLOBAL_MEM_FENCE; }
cl_mem_fence_flags DEVMOD_OV get_fence(generic const void *p) { return get_fence((generic void *)p); }

// -- barriers and fences

void DEVMOD_OV read_mem_fence(cl_mem_fence_flags flags) { mem_fence(flags); }
void DEVMOD_OV write_mem_fence(cl_mem_fence_flags flags) { mem_fence(flags); }
void DEVMOD_OV work_group_barrier(cl_mem_fence_flags flags) { barrier(flags); }
void DEVMOD_OV work_group_barrier(cl_mem_fence_flags flags, memory_scope scope)
{
    if (scope == memory_scope_device || scope == memory_scope_all_svm_devices)
        atomic_work_item_fence(flags, memory_order_acq_rel, scope);
    barrier(flags);
}
void DEVMOD_OV sub_group_barrier(cl_mem_fence_flags flags, memory_scope scope)
{
    if (scope == memory_scope_device || scope == memory_scope_all_svm_devices)
        atomic_work_item_fence(flags, memory_order_acq_rel, scope);
    sub_group_barrier(flags);
}

// A sampler in the source has the bits CLK_…. A program may have one that it does not use.
constant void *__translate_sampler_initializer(int bits) { return (constant void *)(size_t)(uint)bits; }
