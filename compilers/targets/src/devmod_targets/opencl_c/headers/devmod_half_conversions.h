// Conversions to half and from it, which libclc does not have.

#define DEVMOD_CONVERTED(type, n, suffix, mode)                                                                \
    half##n DEVMOD_OV convert_half##n##suffix(type##n x)                                                       \
    {                                                                                                          \
        half##n result;                                                                                        \
        for (int lane = 0; lane < n; lane++)                                                                   \
            result[lane] = devmod_to_half(x[lane], mode);                                                      \
        return result;                                                                                         \
    }
#define DEVMOD_TO_HALF(type, suffix, mode)                                                                     \
    half DEVMOD_OV convert_half##suffix(type x) { return devmod_to_half(x, mode); }                            \
    DEVMOD_CONVERTED(type, 2, suffix, mode) DEVMOD_CONVERTED(type, 3, suffix, mode)                            \
    DEVMOD_CONVERTED(type, 4, suffix, mode) DEVMOD_CONVERTED(type, 8, suffix, mode)                            \
    DEVMOD_CONVERTED(type, 16, suffix, mode)
DEVMOD_MODES(DEVMOD_TO_HALF, char) DEVMOD_MODES(DEVMOD_TO_HALF, uchar) DEVMOD_MODES(DEVMOD_TO_HALF, short)
DEVMOD_MODES(DEVMOD_TO_HALF, ushort) DEVMOD_MODES(DEVMOD_TO_HALF, int) DEVMOD_MODES(DEVMOD_TO_HALF, uint)
DEVMOD_MODES(DEVMOD_TO_HALF, long) DEVMOD_MODES(DEVMOD_TO_HALF, ulong) DEVMOD_MODES(DEVMOD_TO_HALF, half)
DEVMOD_MODES(DEVMOD_TO_HALF, float) DEVMOD_MODES(DEVMOD_TO_HALF, double)

#define DEVMOD_OF_HALF(type, n, suffix)                                                                        \
    DEVMOD_INLINE type##n devmod_##type##n##suffix(float##n x) { return convert_##type##n##suffix(x); }        \
    type##n DEVMOD_OV convert_##type##n##suffix(half##n x) { return devmod_##type##n##suffix(devmod_wide(x)); }
#define DEVMOD_FROM_HALF(type, suffix, mode)                                                                   \
    DEVMOD_OF_HALF(type, , suffix) DEVMOD_OF_HALF(type, 2, suffix) DEVMOD_OF_HALF(type, 3, suffix)             \
    DEVMOD_OF_HALF(type, 4, suffix) DEVMOD_OF_HALF(type, 8, suffix) DEVMOD_OF_HALF(type, 16, suffix)
#define DEVMOD_SATURATED(type)                                                                                 \
    DEVMOD_MODES(DEVMOD_FROM_HALF, type)                                                                       \
    DEVMOD_FROM_HALF(type, _sat, 0) DEVMOD_FROM_HALF(type, _sat_rte, 0) DEVMOD_FROM_HALF(type, _sat_rtz, 0)    \
    DEVMOD_FROM_HALF(type, _sat_rtp, 0) DEVMOD_FROM_HALF(type, _sat_rtn, 0)
DEVMOD_SATURATED(char) DEVMOD_SATURATED(uchar) DEVMOD_SATURATED(short) DEVMOD_SATURATED(ushort)
DEVMOD_SATURATED(int) DEVMOD_SATURATED(uint) DEVMOD_SATURATED(long) DEVMOD_SATURATED(ulong)
DEVMOD_MODES(DEVMOD_FROM_HALF, float) DEVMOD_MODES(DEVMOD_FROM_HALF, double)
