"""The functions of CUDA and HIP that kernels call, with their state in devmod's headers: the
end of docs/rocm.md.

python tools/rocm_functions.py    print the section

compilers/targets/tests/test_rocm_functions.py compiles the list.
"""

from __future__ import annotations

HEAD = """\
CUDA's functions for kernels, and those that HIP has beside them, with their state in [devmod's headers](#the-headers).
A test compiles the whole list, and executes machine code of gfx1100 on an emulator.

| state | meaning |
|---|---|
| executed | the emulator computes what NumPy or Python computes. [The table above](#math) has the errors of the math functions |
| compiled | the headers have the function, and no test executes it |
| library | the function needs [ROCm's device library](#the-device-library). Without it, the CompileError names the function |
| no | the headers have no such function. The CompileError names it |
"""
# Where to change: a function of HIP's headers
#   here: `compilers/targets/src/devmod_targets/rocm/headers/` (`devmod_hip_complete.h`, unless most
#     kernels use it)
#   also: `tools/rocm_functions.py` (`FUNCTIONS`)
#   tests: `compilers/targets/tests/test_rocm_functions.py`
#: By heading and state: the names, with spaces between them.
FUNCTIONS = {
    "Math: float": {
        "executed": (
            "expf exp2f exp10f expm1f logf log2f log10f log1pf sqrtf rsqrtf cbrtf rcbrtf powf sinf cosf tanf sinpif cospif asinf "
            "acosf atanf atan2f sinhf coshf tanhf asinhf acoshf atanhf erff erfcf erfcxf erfinvf normcdff hypotf rhypotf norm3df "
            "rnorm3df norm4df rnorm4df fabsf floorf ceilf truncf rintf nearbyintf roundf lrintf llrintf lroundf llroundf fmodf "
            "remainderf fmaf fdimf fdividef ldexpf scalbnf scalblnf ilogbf logbf nextafterf isnan isinf isfinite isnormal signbit min "
            "max abs"
        ),
        "compiled": "fminf fmaxf copysignf frexpf modff nanf normf rnormf sincosf sincospif powif",
        "library": "erfcinvf normcdfinvf tgammaf lgammaf j0f j1f y0f y1f cyl_bessel_i0f cyl_bessel_i1f",
        "no": "jnf ynf remquof",
    },
    "Math: double": {
        "executed": "sqrt rsqrt fma fmod remainder floor ceil trunc rint hypot fabs fmin fmax copysign ldexp ilogb nextafter",
        "compiled": (
            "nearbyint round lrint llrint lround llround scalbn scalbln logb frexp modf fdim nan rhypot norm rnorm norm3d rnorm3d "
            "norm4d rnorm4d"
        ),
        "library": (
            "exp exp2 exp10 expm1 log log2 log10 log1p pow sin cos tan sincos sinpi cospi sincospi asin acos atan atan2 sinh cosh "
            "tanh asinh acosh atanh cbrt rcbrt erf erfc erfcx erfinv erfcinv normcdf normcdfinv tgamma lgamma j0 j1 y0 y1 "
            "cyl_bessel_i0 cyl_bessel_i1"
        ),
        "no": "jn yn remquo",
    },
    "Math: intrinsics": {
        "executed": (
            "__fadd_rn __fsub_rn __fmul_rn __fdiv_rn __fmaf_rn __fsqrt_rn __frsqrt_rn __frcp_rn __fdividef __saturatef __dmul_rn "
            "__ddiv_rn __expf __exp10f __logf __log2f __log10f __powf"
        ),
        "compiled": "__sinf __cosf __tanf __sincosf __dadd_rn __dsub_rn __drcp_rn __dsqrt_rn __fma_rn",
        "no": (
            "__fadd_rd __fadd_ru __fadd_rz __fmul_rd __fmul_ru __fmul_rz __fdiv_rd __fdiv_ru __fdiv_rz __fmaf_rd __fmaf_ru __fmaf_rz "
            "__fsqrt_rd __fsqrt_ru __fsqrt_rz __frcp_rd __frcp_ru __frcp_rz __dadd_rd __dmul_ru __ddiv_rz __fma_rd __dsqrt_ru __tanhf"
        ),
    },
    "Integers, conversions, bits": {
        "executed": (
            "__popc __popcll __clz __clzll __ffs __ffsll __brev __brevll __byte_perm __funnelshift_l __funnelshift_r __funnelshift_lc "
            "__funnelshift_rc __mul24 __umul24 __mulhi __umulhi __mul64hi __umul64hi __hadd __rhadd __uhadd __urhadd __sad __usad "
            "__dp4a __dp2a_lo __dp2a_hi llabs __bitextract_u32 __bitextract_u64 __bitinsert_u32 __bitinsert_u64 __float_as_int "
            "__float_as_uint __int_as_float __uint_as_float __double_as_longlong __longlong_as_double __double2hiint __double2loint "
            "__hiloint2double __float2int_rn __float2int_rz __float2int_ru __float2int_rd __float2ll_rd __double2int_rn "
            "__double2ll_ru __double2float_rn __uint2double_rn __ll2double_rn __uint2float_rn"
        ),
        "compiled": (
            "__float2uint_rn __float2uint_rz __float2uint_ru __float2uint_rd __float2ll_rn __float2ll_rz __float2ll_ru __float2ull_rn "
            "__float2ull_rz __float2ull_ru __float2ull_rd __double2int_rz __double2int_ru __double2int_rd __double2uint_rn "
            "__double2uint_rz __double2uint_ru __double2uint_rd __double2ll_rn __double2ll_rz __double2ll_rd __double2ull_rn "
            "__double2ull_rz __double2ull_ru __double2ull_rd __int2float_rn __ll2float_rn __ull2float_rn __int2double_rn "
            "__ull2double_rn labs"
        ),
        "no": (
            "__double2float_rd __double2float_ru __double2float_rz __int2float_rd __int2float_ru __int2float_rz __uint2float_rz "
            "__ll2float_rz __ull2float_rz __ll2double_rz __vadd2 __vadd4 __vsub2 __vsub4 __vabs2 __vabs4 __vmaxs2 __vmins4 __vcmpeq4 "
            "__vsads4 __viaddmax_s32"
        ),
    },
    "Atomic functions": {
        "executed": (
            "atomicAdd atomicSub atomicExch atomicMin atomicMax atomicAnd atomicOr atomicXor atomicCAS atomicInc atomicDec "
            "unsafeAtomicAdd atomicAdd_block atomicMax_system"
        ),
        "compiled": (
            "safeAtomicAdd atomicSub_block atomicExch_block atomicMin_block atomicMax_block atomicAnd_block atomicOr_block "
            "atomicXor_block atomicCAS_block atomicInc_block atomicDec_block atomicAdd_system atomicSub_system atomicExch_system "
            "atomicMin_system atomicAnd_system atomicOr_system atomicXor_system atomicCAS_system atomicInc_system atomicDec_system"
        ),
    },
    "Waves, blocks, memory": {
        "executed": (
            "__shfl __shfl_up __shfl_down __shfl_xor __shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync __ballot __any __all "
            "__ballot_sync __any_sync __all_sync __activemask __lane_id __match_any __match_any_sync __match_all __reduce_add_sync "
            "__reduce_min_sync __reduce_max_sync __reduce_and_sync __reduce_or_sync __reduce_xor_sync __syncthreads "
            "__syncthreads_count __syncthreads_and __syncthreads_or __ldg"
        ),
        "compiled": (
            "__match_all_sync __syncwarp __threadfence_block __threadfence __threadfence_system __nanosleep clock clock64 "
            "wall_clock64 __ldca __ldcg __ldcs __ldlu __ldcv __stwb __stcg __stcs __stwt memcpy memmove memset abort __trap "
            "__assert_fail printf"
        ),
        "no": (
            "malloc free __brkpt __prof_trigger __isGlobal __cvta_generic_to_shared __pipeline_memcpy_async __cluster_dims__ tex1D "
            "tex2D surf2Dread"
        ),
    },
    "float16 and bfloat16": {
        "executed": (
            "__hmul __hfma2 __hmax hexp __float2half __half2float __float2half2_rn __half2int_rn __half2short_rn __half2ushort_rn "
            "__half_as_ushort __ushort_as_half __float2bfloat16 __bfloat162float __bfloat16_as_ushort __ushort_as_bfloat16"
        ),
        "compiled": (
            "__hsub __hdiv __hmin __hfma __hneg __habs __hadd2 __hsub2 __hmul2 __h2div __hmin2 __hmax2 __hneg2 __habs2 __heq __hne "
            "__hlt __hle __hgt __hge __heq2 __hne2 __hlt2 __hle2 __hgt2 __hge2 __hisnan __hisinf hsqrt hrsqrt hrcp hexp2 hexp10 hlog "
            "hlog2 hlog10 hsin hcos hfloor hceil htrunc hrint h2sqrt h2rsqrt h2rcp h2exp h2exp2 h2exp10 h2log h2log2 h2log10 h2sin "
            "h2cos h2floor h2ceil h2trunc h2rint __float2half_rn __float2half_rz __double2half __half_as_short __short_as_half "
            "__half2int_rz __half2uint_rn __half2ll_rn __half2ull_rn __int2half_rn __uint2half_rn __short2half_rn __ushort2half_rn "
            "__ll2half_rn __ull2half_rn make_half2 __halves2half2 __half2half2 __floats2half2_rn __float22half2_rn __half22float2 "
            "__low2half __high2half __low2half2 __high2half2 __lows2half2 __highs2half2 __lowhigh2highlow __low2float __high2float "
            "__float2bfloat16_rn __double2bfloat16 __bfloat16_as_short __short_as_bfloat16 make_bfloat162 __halves2bfloat162 "
            "__bfloat162bfloat162 __floats2bfloat162_rn __float2bfloat162_rn __float22bfloat162_rn __bfloat1622float2 __low2bfloat16 "
            "__high2bfloat16"
        ),
        "no": "htanh __hadd_sat __hfma_relu __hbeq2 __hbgt2",
    },
}


def section() -> str:
    """Return the section of the page."""
    lines = [HEAD]
    for heading, states in FUNCTIONS.items():
        lines += [f"### {heading}\n", "| state | functions |", "|---|---|"]
        lines += [
            f"| {state} | {' '.join(f'`{name}`' for name in names.split())} |"
            for state, names in states.items()
        ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(section(), end="")
