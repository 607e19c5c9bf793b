// The built-in functions of OpenCL C that depend on AMD's processors. HIP's launch has three dimensions and no offset, and gives its sizes
// as hidden arguments of code objects since version 5. libclc has other sizes: those of the dispatch packet of an OpenCL driver.
#define DEVMOD_OV __attribute__((overloadable))
#define DEVMOD_INLINE __attribute__((overloadable, always_inline))
#define DEVMOD_LANES __builtin_amdgcn_wavefrontsize()
#define DEVMOD_IS_LOCAL(p) __builtin_amdgcn_is_shared(p)
#define DEVMOD_IS_PRIVATE(p) __builtin_amdgcn_is_private(p)

#define DEVMOD_AXIS(name, other) \
    (axis == 0 ? __builtin_amdgcn_##name##_x() : axis == 1 ? __builtin_amdgcn_##name##_y() : axis == 2 ? __builtin_amdgcn_##name##_z() : other)
size_t DEVMOD_OV get_local_id(uint axis) { return (uint)DEVMOD_AXIS(workitem_id, 0); }
size_t DEVMOD_OV get_local_size(uint axis) { return (uint)DEVMOD_AXIS(workgroup_size, 1); }
size_t DEVMOD_OV get_enqueued_local_size(uint axis) { return get_local_size(axis); }
size_t DEVMOD_OV get_group_id(uint axis) { return (uint)DEVMOD_AXIS(workgroup_id, 0); }
size_t DEVMOD_OV get_num_groups(uint axis) { return axis < 3 ? ((constant uint *)__builtin_amdgcn_implicitarg_ptr())[axis] : 1; }
size_t DEVMOD_OV get_global_offset(uint axis) { return 0; }
size_t DEVMOD_OV get_global_id(uint axis) { return get_group_id(axis) * get_local_size(axis) + get_local_id(axis); }
size_t DEVMOD_OV get_global_size(uint axis) { return get_num_groups(axis) * get_local_size(axis); }

// A barrier orders the accesses of a block to global memory too.
void DEVMOD_OV barrier(cl_mem_fence_flags flags)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// libclc has it for pointers to any address space alone.
void DEVMOD_OV wait_group_events(int count, private event_t *events) { barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); }
void DEVMOD_OV mem_fence(cl_mem_fence_flags flags)
{
    if (flags & (CLK_GLOBAL_MEM_FENCE | CLK_IMAGE_MEM_FENCE))
        __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
    else
        __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
}
void DEVMOD_OV atomic_work_item_fence(cl_mem_fence_flags flags, memory_order order, memory_scope scope)
{
    if (scope == memory_scope_all_svm_devices)
        __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "");
    else if (scope == memory_scope_device)
        __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
    else
        __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
}
void DEVMOD_OV sub_group_barrier(cl_mem_fence_flags flags)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// -- the lanes of a sub-group. The last one of a block may have fewer.

DEVMOD_INLINE int devmod_from_lane(int x, uint lane) { return __builtin_amdgcn_ds_bpermute(lane * 4, x); }
DEVMOD_INLINE bool devmod_some(bool x)
{
#ifdef __GFX_WAVE64__
    return __builtin_amdgcn_ballot_w64(x) != 0;
#else
    return __builtin_amdgcn_ballot_w32(x) != 0;
#endif
}
int DEVMOD_OV sub_group_all(int x) { return !devmod_some(x == 0); }
int DEVMOD_OV sub_group_any(int x) { return devmod_some(x != 0); }
