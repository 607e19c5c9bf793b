// The parts of devmod's definitions of built-in functions that clang does not compile to SPIR-V.
#define DEVMOD_DEVICE static __attribute__((overloadable, always_inline, unused))
#define DEVMOD_DECLARED __attribute__((overloadable, convergent))

// -- barriers: the scopes are device (1), work-group (2) and sub-group (3); 0x318 is acquire and release of local and global memory

DEVMOD_DECLARED void __spirv_MemoryBarrier(int scope, int semantics);
DEVMOD_DECLARED void __spirv_ControlBarrier(int scope, int memory, int semantics);
DEVMOD_DEVICE void devmod_barrier(void) { __spirv_ControlBarrier(2, 2, 0x318); }
DEVMOD_DEVICE void devmod_fence(void) { __spirv_MemoryBarrier(1, 0x318); }
DEVMOD_DEVICE void devmod_sub_barrier(void) { __spirv_ControlBarrier(3, 3, 0x318); }

// -- address spaces, and functions of clang's SPIR-V for others

// clang compiles a call of to_local to a function without a definition.
global void *devmod_to_global(generic void *p) __asm__("_Z9to_globalPU3AS4v");
local void *devmod_to_local(generic void *p) __asm__("_Z8to_localPU3AS4v");
#define DEVMOD_ATOMIC(space, type)                                                                                         \
    DEVMOD_DECLARED type __spirv_AtomicLoad(space type *p, int scope, int semantics);                                      \
    DEVMOD_DECLARED void __spirv_AtomicStore(space type *p, int scope, int semantics, type x);                             \
    DEVMOD_DECLARED type __spirv_AtomicCompareExchange(space type *p, int scope, int equal, int unequal, type x, type expected);
#define DEVMOD_ATOMICS(type) DEVMOD_ATOMIC(global, type) DEVMOD_ATOMIC(local, type)
DEVMOD_ATOMICS(int)
DEVMOD_ATOMICS(uint)
DEVMOD_ATOMICS(long)
DEVMOD_ATOMICS(ulong)
DEVMOD_DECLARED float3 vload_half3(size_t offset, global const half *p);
DEVMOD_DECLARED float3 vload_half3(size_t offset, constant half *p);
DEVMOD_DECLARED float3 vload_half3(size_t offset, local const half *p);
DEVMOD_DECLARED float3 vload_half3(size_t offset, private const half *p);
DEVMOD_DECLARED float3 vload_half3(size_t offset, generic const half *p);

// -- the number of a thread in its block, and the threads of the block

DEVMOD_DECLARED size_t get_local_id(uint axis);
DEVMOD_DECLARED size_t get_local_size(uint axis);
DEVMOD_DEVICE uint devmod_linear(void) { return (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0); }
DEVMOD_DEVICE uint devmod_threads(void) { return get_local_size(0) * get_local_size(1) * get_local_size(2); }

// -- conversions with a rounding: toward zero (1), up (2) and down (3)

// The next number above or below.
#define DEVMOD_NEXT(type, bits, sign)                                                                                      \
    DEVMOD_DEVICE type devmod_next(type x, bool up)                                                                        \
    {                                                                                                                      \
        bits v = as_##bits(x);                                                                                             \
        return as_##type((bits)(v == 0 || v == (bits)(sign) ? (up ? 1 : (sign) | 1) : v + ((v > 0) == up ? 1 : -1)));       \
    }
DEVMOD_NEXT(half, short, 0x8000)
DEVMOD_NEXT(double, long, 0x8000000000000000)
// The number `near` is a conversion to the nearest, which is less or greater than the exact value x.
#define DEVMOD_DIRECTED(near, less, greater, x, mode)                                                                      \
    ((mode) == 1 ? (((x) < 0 ? (less) : (greater)) ? devmod_next(near, (x) < 0) : (near))                                  \
     : (mode) == 2 ? ((less) ? devmod_next(near, true) : (near))                                                           \
                   : ((greater) ? devmod_next(near, false) : (near)))
#define DEVMOD_TO_HALF(source)                                                                                             \
    DEVMOD_DEVICE half devmod_to_half(source x, int mode)                                                                  \
    {                                                                                                                      \
        half near = (half)x;                                                                                               \
        return DEVMOD_DIRECTED(near, (source)near < x, (source)near > x, x, mode);                                         \
    }
DEVMOD_TO_HALF(float)
DEVMOD_TO_HALF(double)
// The 11 low bits of an integer and the rest are numbers of double, and so is the error of their sum.
#define DEVMOD_TO_DOUBLE(source)                                                                                           \
    DEVMOD_DEVICE double devmod_to_double(source x, int mode)                                                              \
    {                                                                                                                      \
        double high = (double)(x & ~(source)0x7ff), low = (double)(x & 0x7ff), near = high + low, rest = low - (near - high); \
        return DEVMOD_DIRECTED(near, rest > 0, rest < 0, x, mode);                                                         \
    }
DEVMOD_TO_DOUBLE(long)
DEVMOD_TO_DOUBLE(ulong)

// -- saturated products and sums: of 8 to 32 bits with twice the bits, of 64 bits with the high half of the product

#define DEVMOD_MAD_SAT(type, wide, least, most)                                                                            \
    DEVMOD_DEVICE type devmod_mad_sat(type x, type y, type z)                                                              \
    {                                                                                                                      \
        wide sum = (wide)x * y + z;                                                                                        \
        return sum > (most) ? (most) : sum < (least) ? (least) : sum;                                                      \
    }
DEVMOD_MAD_SAT(char, int, -128, 127)
DEVMOD_MAD_SAT(uchar, uint, 0, 255)
DEVMOD_MAD_SAT(short, long, -32768, 32767)
DEVMOD_MAD_SAT(ushort, ulong, 0, 65535)
DEVMOD_MAD_SAT(int, long, -0x80000000L, 0x7fffffff)
DEVMOD_MAD_SAT(uint, ulong, 0, 0xffffffff)
DEVMOD_DECLARED long mul_hi(long x, long y);
DEVMOD_DECLARED ulong mul_hi(ulong x, ulong y);
DEVMOD_DEVICE ulong devmod_mad_sat(ulong x, ulong y, ulong z)
{
    ulong sum = x * y + z;
    return mul_hi(x, y) || sum < z ? ~0UL : sum;
}
DEVMOD_DEVICE long devmod_mad_sat(long x, long y, long z)
{
    ulong product = (ulong)x * (ulong)y, sum = product + (ulong)z;
    long high = mul_hi(x, y) + (z < 0 ? -1 : 0) + (sum < product);
    if (high == (long)sum >> 63)
        return sum;
    return high < 0 ? (long)(1UL << 63) : (long)(~0UL >> 1);
}
