// The fast functions of NVIDIA's processors. libclc has them as LLVM's functions, some of which LLVM does not compile to PTX.

#define DEVMOD_LANES1(name, n)                                \
    float##n DEVMOD_OV name(float##n x)                       \
    {                                                         \
        float##n result;                                      \
        for (int lane = 0; lane < n; lane++)                  \
            result[lane] = name(x[lane]);                     \
        return result;                                        \
    }
#define DEVMOD_NATIVE(name, value)                            \
    float DEVMOD_OV name(float x) { return value; }           \
    DEVMOD_LANES1(name, 2) DEVMOD_LANES1(name, 3) DEVMOD_LANES1(name, 4) DEVMOD_LANES1(name, 8) DEVMOD_LANES1(name, 16)
DEVMOD_NATIVE(native_cos, __nvvm_cos_approx_f(x))
DEVMOD_NATIVE(native_sin, __nvvm_sin_approx_f(x))
DEVMOD_NATIVE(native_tan, __nvvm_div_approx_f(__nvvm_sin_approx_f(x), __nvvm_cos_approx_f(x)))
DEVMOD_NATIVE(native_exp2, __nvvm_ex2_approx_f(x))
DEVMOD_NATIVE(native_exp, __nvvm_ex2_approx_f(x * M_LOG2E_F))
DEVMOD_NATIVE(native_exp10, __nvvm_ex2_approx_f(x * (M_LN10_F * M_LOG2E_F)))
DEVMOD_NATIVE(native_log2, __nvvm_lg2_approx_f(x))
DEVMOD_NATIVE(native_log, __nvvm_lg2_approx_f(x) * M_LN2_F)
DEVMOD_NATIVE(native_log10, __nvvm_lg2_approx_f(x) * (M_LN2_F * M_LOG10E_F))
#define DEVMOD_POWER(n)                                       \
    float##n DEVMOD_OV native_powr(float##n x, float##n y) { return native_exp2(y * native_log2(x)); }
DEVMOD_POWER() DEVMOD_POWER(2) DEVMOD_POWER(3) DEVMOD_POWER(4) DEVMOD_POWER(8) DEVMOD_POWER(16)
