// What devmod's definitions need of SPIR-V. clang compiles most built-in functions of OpenCL C to SPIR-V itself.
#define DEVMOD_F32(name, count) "devmod_missing_" name
#define DEVMOD_F64(name, count) "devmod_missing_" name
#define DEVMOD_FAST32(name) "devmod_missing_" name
#define DEVMOD_DEVICE static __attribute__((always_inline, unused))
#define DEVMOD_WAVE 1
// clang has no wider integers for SPIR-V, and no definition there needs one.
#define __int128 long
#define DEVMOD_DECLARED __attribute__((overloadable, convergent))
DEVMOD_DECLARED void __spirv_MemoryBarrier(int scope, int semantics);
DEVMOD_DECLARED void __spirv_ControlBarrier(int scope, int memory, int semantics);
DEVMOD_DECLARED size_t get_group_id(uint axis);
DEVMOD_DECLARED size_t get_local_id(uint axis);
DEVMOD_DECLARED size_t get_local_size(uint axis);
DEVMOD_DECLARED size_t get_num_groups(uint axis);
DEVMOD_DEVICE uint devmod_group(uint axis) { return get_group_id(axis); }
DEVMOD_DEVICE uint devmod_local(uint axis) { return get_local_id(axis); }
DEVMOD_DEVICE uint devmod_size(uint axis) { return get_local_size(axis); }
DEVMOD_DEVICE uint devmod_groups(uint axis) { return get_num_groups(axis); }
int devmod_shuffle(int x, uint lane, uint lanes) __asm__("devmod_missing_shuffle");
int devmod_all(int x, uint lanes) __asm__("devmod_missing_all");
int devmod_any(int x, uint lanes) __asm__("devmod_missing_any");
uint devmod_lane(void) __asm__("devmod_missing_lane");
// The scopes are device (1), work-group (2) and sub-group (3); 0x318 is acquire and release of local and global memory.
DEVMOD_DEVICE void devmod_barrier(void) { __spirv_ControlBarrier(2, 2, 0x318); }
DEVMOD_DEVICE void devmod_fence(void) { __spirv_MemoryBarrier(1, 0x318); }
DEVMOD_DEVICE void devmod_sub_barrier(void) { __spirv_ControlBarrier(3, 3, 0x318); }
