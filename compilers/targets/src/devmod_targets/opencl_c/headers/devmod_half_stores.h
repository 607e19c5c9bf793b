// Stores of numbers as half. Those of libclc lose the smallest numbers.

#define DEVMOD_PUT(begin, n, suffix, mode, number, space, stride)                                              \
    void DEVMOD_OV begin##n##suffix(number##n x, size_t at, space half *p)                                     \
    {                                                                                                          \
        for (int lane = 0; lane < n; lane++)                                                                   \
            p[stride * at + lane] = devmod_to_half(x[lane], mode);                                             \
    }
#define DEVMOD_PUTS(suffix, mode, number, space)                                                               \
    void DEVMOD_OV vstore_half##suffix(number x, size_t at, space half *p) { p[at] = devmod_to_half(x, mode); } \
    DEVMOD_PUT(vstore_half, 2, suffix, mode, number, space, 2)                                                 \
    DEVMOD_PUT(vstore_half, 3, suffix, mode, number, space, 3)                                                 \
    DEVMOD_PUT(vstore_half, 4, suffix, mode, number, space, 4)                                                 \
    DEVMOD_PUT(vstore_half, 8, suffix, mode, number, space, 8)                                                 \
    DEVMOD_PUT(vstore_half, 16, suffix, mode, number, space, 16)                                               \
    DEVMOD_PUT(vstorea_half, 2, suffix, mode, number, space, 2)                                                \
    DEVMOD_PUT(vstorea_half, 3, suffix, mode, number, space, 4)                                                \
    DEVMOD_PUT(vstorea_half, 4, suffix, mode, number, space, 4)                                                \
    DEVMOD_PUT(vstorea_half, 8, suffix, mode, number, space, 8)                                                \
    DEVMOD_PUT(vstorea_half, 16, suffix, mode, number, space, 16)
#define DEVMOD_PUT_NUMBERS(number, suffix, mode)                                                               \
    DEVMOD_PUTS(suffix, mode, number, global) DEVMOD_PUTS(suffix, mode, number, local) DEVMOD_PUTS(suffix, mode, number, )
DEVMOD_MODES(DEVMOD_PUT_NUMBERS, float)
DEVMOD_MODES(DEVMOD_PUT_NUMBERS, double)
