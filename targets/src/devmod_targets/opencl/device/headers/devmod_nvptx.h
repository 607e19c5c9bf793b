// The ids, barriers and sub-groups of NVIDIA's GPUs, and the symbols of libdevice.
#define DEVMOD_F32(name, count) "__nv_" name "f"
#define DEVMOD_F64(name, count) "__nv_" name
#define DEVMOD_FAST32(name) "__nv_fast_" name "f"
#define DEVMOD_DEVICE static __attribute__((always_inline, unused))
DEVMOD_DEVICE uint devmod_group(uint axis) { return axis == 0 ? __nvvm_read_ptx_sreg_ctaid_x() : axis == 1 ? __nvvm_read_ptx_sreg_ctaid_y() : axis == 2 ? __nvvm_read_ptx_sreg_ctaid_z() : 0; }
DEVMOD_DEVICE uint devmod_local(uint axis) { return axis == 0 ? __nvvm_read_ptx_sreg_tid_x() : axis == 1 ? __nvvm_read_ptx_sreg_tid_y() : axis == 2 ? __nvvm_read_ptx_sreg_tid_z() : 0; }
DEVMOD_DEVICE uint devmod_size(uint axis) { return axis == 0 ? __nvvm_read_ptx_sreg_ntid_x() : axis == 1 ? __nvvm_read_ptx_sreg_ntid_y() : axis == 2 ? __nvvm_read_ptx_sreg_ntid_z() : 1; }
DEVMOD_DEVICE uint devmod_groups(uint axis) { return axis == 0 ? __nvvm_read_ptx_sreg_nctaid_x() : axis == 1 ? __nvvm_read_ptx_sreg_nctaid_y() : axis == 2 ? __nvvm_read_ptx_sreg_nctaid_z() : 1; }
DEVMOD_DEVICE void devmod_barrier(void) { __nvvm_bar_sync(0); }
DEVMOD_DEVICE void devmod_fence(void) { __nvvm_membar_gl(); }
DEVMOD_DEVICE void devmod_sub_barrier(void) { __nvvm_bar_warp_sync(~0u); }
#define DEVMOD_WAVE 32
DEVMOD_DEVICE uint devmod_lane(void) { return __nvvm_read_ptx_sreg_laneid(); }
// The lanes that exist: the last sub-group of a block may have fewer.
DEVMOD_DEVICE uint devmod_present(uint lanes) { return lanes >= 32 ? ~0u : (1u << lanes) - 1; }
DEVMOD_DEVICE int devmod_shuffle(int x, uint lane, uint lanes) { return __nvvm_shfl_sync_idx_i32(devmod_present(lanes), x, lane, 31); }
DEVMOD_DEVICE int devmod_all(int x, uint lanes) { return __nvvm_vote_all_sync(devmod_present(lanes), x != 0); }
DEVMOD_DEVICE int devmod_any(int x, uint lanes) { return __nvvm_vote_any_sync(devmod_present(lanes), x != 0); }
