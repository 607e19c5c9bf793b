// The built-in functions of OpenCL C that depend on NVIDIA's processors. A launch has three dimensions and no offset.
#define DEVMOD_OV __attribute__((overloadable))
#define DEVMOD_INLINE __attribute__((overloadable, always_inline))
#define DEVMOD_LANES 32
#define DEVMOD_IS_LOCAL(p) __nvvm_isspacep_shared(p)
#define DEVMOD_IS_PRIVATE(p) __nvvm_isspacep_local(p)

#define DEVMOD_AXIS(register, other) \
    (axis == 0 ? __nvvm_read_ptx_sreg_##register##_x() : axis == 1 ? __nvvm_read_ptx_sreg_##register##_y() : axis == 2 ? __nvvm_read_ptx_sreg_##register##_z() : other)
size_t DEVMOD_OV get_local_id(uint axis) { return (uint)DEVMOD_AXIS(tid, 0); }
size_t DEVMOD_OV get_local_size(uint axis) { return (uint)DEVMOD_AXIS(ntid, 1); }
size_t DEVMOD_OV get_enqueued_local_size(uint axis) { return (uint)DEVMOD_AXIS(ntid, 1); }
size_t DEVMOD_OV get_group_id(uint axis) { return (uint)DEVMOD_AXIS(ctaid, 0); }
size_t DEVMOD_OV get_num_groups(uint axis) { return (uint)DEVMOD_AXIS(nctaid, 1); }
size_t DEVMOD_OV get_global_offset(uint axis) { return 0; }

// A barrier orders the accesses of a block to global memory too.
void DEVMOD_OV barrier(cl_mem_fence_flags flags) { __nvvm_bar_sync(0); }
void DEVMOD_OV mem_fence(cl_mem_fence_flags flags)
{
    if (flags & (CLK_GLOBAL_MEM_FENCE | CLK_IMAGE_MEM_FENCE))
        __nvvm_membar_gl();
    else
        __nvvm_membar_cta();
}
void DEVMOD_OV atomic_work_item_fence(cl_mem_fence_flags flags, memory_order order, memory_scope scope)
{
    if (scope == memory_scope_all_svm_devices)
        __nvvm_membar_sys();
    else if (scope == memory_scope_device)
        __nvvm_membar_gl();
    else
        __nvvm_membar_cta();
}
void DEVMOD_OV sub_group_barrier(cl_mem_fence_flags flags) { __nvvm_bar_warp_sync(~0u); }

// -- the lanes of a sub-group. The last one of a block may have fewer.

uint DEVMOD_OV get_sub_group_size(void);
DEVMOD_INLINE uint devmod_present(void)
{
    uint lanes = get_sub_group_size();
    return lanes >= DEVMOD_LANES ? ~0u : (1u << lanes) - 1;
}
DEVMOD_INLINE int devmod_from_lane(int x, uint lane) { return __nvvm_shfl_sync_idx_i32(devmod_present(), x, lane, 31); }
int DEVMOD_OV sub_group_all(int x) { return __nvvm_vote_all_sync(devmod_present(), x != 0); }
int DEVMOD_OV sub_group_any(int x) { return __nvvm_vote_any_sync(devmod_present(), x != 0); }
