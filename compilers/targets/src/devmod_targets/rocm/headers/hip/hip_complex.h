/* Complex numbers of HIP: the vectors float2 and double2. */
#pragma once
#include <devmod_hip.h>

#define DEVMOD_COMPLEX(type, number, f)                                                                          \
    typedef number##2 type;                                                                                      \
    devmod_both type make_##type(number x, number y) { return {x, y}; }                                          \
    devmod_both number hipCreal##f(type z) { return z.x; }                                                       \
    devmod_both number hipCimag##f(type z) { return z.y; }                                                       \
    devmod_both type hipConj##f(type z) { return {z.x, -z.y}; }                                                  \
    devmod_both number hipCsqabs##f(type z) { return z.x * z.x + z.y * z.y; }                                    \
    devmod_both number hipCabs##f(type z) { return __builtin_sqrt##f(z.x * z.x + z.y * z.y); }                   \
    devmod_both type hipCadd##f(type a, type b) { return {a.x + b.x, a.y + b.y}; }                               \
    devmod_both type hipCsub##f(type a, type b) { return {a.x - b.x, a.y - b.y}; }                               \
    devmod_both type hipCmul##f(type a, type b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }       \
    devmod_both type hipCdiv##f(type a, type b)                                                                  \
    {                                                                                                            \
        number square = b.x * b.x + b.y * b.y;                                                                   \
        return {(a.x * b.x + a.y * b.y) / square, (a.y * b.x - a.x * b.y) / square};                             \
    }                                                                                                            \
    devmod_both type hipCfma##f(type a, type b, type c) { return {a.x * b.x - a.y * b.y + c.x, a.x * b.y + a.y * b.x + c.y}; }
DEVMOD_COMPLEX(hipFloatComplex, float, f)
DEVMOD_COMPLEX(hipDoubleComplex, double, )
typedef hipFloatComplex hipComplex;
devmod_both hipComplex make_hipComplex(float x, float y) { return {x, y}; }
