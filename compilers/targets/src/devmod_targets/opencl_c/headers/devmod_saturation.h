// libclc's mad_sat of long is LONG_MIN if x is negative and y is 0, and wraps if the sum alone overflows.

long DEVMOD_OV mad_sat(long x, long y, long z)
{
    ulong low = (ulong)x * (ulong)y;
    ulong sum = low + (ulong)z;
    long high = mul_hi(x, y) + (z < 0 ? -1 : 0) + (sum < low ? 1 : 0);
    if (high == (long)sum >> 63)
        return sum;
    return high < 0 ? LONG_MIN : LONG_MAX;
}
#define DEVMOD_MAD_SAT(n)                                             \
    long##n DEVMOD_OV mad_sat(long##n x, long##n y, long##n z)        \
    {                                                                 \
        long##n result;                                               \
        for (int lane = 0; lane < n; lane++)                          \
            result[lane] = mad_sat(x[lane], y[lane], z[lane]);        \
        return result;                                                \
    }
DEVMOD_MAD_SAT(2) DEVMOD_MAD_SAT(3) DEVMOD_MAD_SAT(4) DEVMOD_MAD_SAT(8) DEVMOD_MAD_SAT(16)
