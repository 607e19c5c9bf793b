// The ids, barriers and sub-groups of AMD's GPUs. The mathematics is that of devmod's headers of HIP.
// The symbols have the number of parameters, which also ends the names.
#define DEVMOD_F32(name, count) "devmod_f32_" name "_of" #count
#define DEVMOD_F64(name, count) "devmod_f64_" name "_of" #count
#define DEVMOD_FAST32(name) "devmod_fast_" name "_of1"
#define DEVMOD_DEVICE static __attribute__((always_inline, unused))
DEVMOD_DEVICE uint devmod_group(uint axis) { return axis == 0 ? __builtin_amdgcn_workgroup_id_x() : axis == 1 ? __builtin_amdgcn_workgroup_id_y() : axis == 2 ? __builtin_amdgcn_workgroup_id_z() : 0; }
DEVMOD_DEVICE uint devmod_local(uint axis) { return axis == 0 ? __builtin_amdgcn_workitem_id_x() : axis == 1 ? __builtin_amdgcn_workitem_id_y() : axis == 2 ? __builtin_amdgcn_workitem_id_z() : 0; }
DEVMOD_DEVICE uint devmod_size(uint axis) { return axis == 0 ? __builtin_amdgcn_workgroup_size_x() : axis == 1 ? __builtin_amdgcn_workgroup_size_y() : axis == 2 ? __builtin_amdgcn_workgroup_size_z() : 1; }
// The blocks of the grid are the first hidden arguments (code object version 5).
DEVMOD_DEVICE uint devmod_groups(uint axis) { return axis < 3 ? ((const constant uint *)__builtin_amdgcn_implicitarg_ptr())[axis] : 1; }
DEVMOD_DEVICE void devmod_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVMOD_DEVICE void devmod_fence(void) { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
DEVMOD_DEVICE void devmod_sub_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
#define DEVMOD_WAVE __builtin_amdgcn_wavefrontsize()
DEVMOD_DEVICE uint devmod_lane(void) { return __builtin_amdgcn_mbcnt_hi(DEVMOD_WAVE == 64 ? ~0u : 0, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
DEVMOD_DEVICE int devmod_shuffle(int x, uint lane, uint lanes) { return __builtin_amdgcn_ds_bpermute((int)(lane << 2), x); }
DEVMOD_DEVICE int devmod_any(int x, uint lanes) { return __builtin_amdgcn_ballot_w64(x != 0) != 0; }
DEVMOD_DEVICE int devmod_all(int x, uint lanes) { return __builtin_amdgcn_ballot_w64(x == 0) == 0; }
