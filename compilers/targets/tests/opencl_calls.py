"""A call of each built-in function of OpenCL C that compiles to SPIR-V, for tests.

The variables: the float x, the float4 v, the int i, the uint u, the int4 n; the pointers `p` to a
float, `q` to a float4 and `e` to an int in private memory; `g` and `h` (half) in global memory, `l`
in local memory; `a` to an int in global memory, and `c` to an atomic_int there.
"""

from __future__ import annotations

_UNARY = """
acos acosh acospi asin asinh asinpi atan atanh atanpi cbrt ceil cos cosh cospi erf erfc exp exp10 exp2 expm1 fabs floor ilogb lgamma log
log10 log1p log2 logb rint round rsqrt sin sinh sinpi sqrt tan tanh tanpi tgamma trunc isfinite isinf isnan isnormal signbit degrees radians
sign fast_length fast_normalize length normalize
native_cos native_exp native_exp2 native_exp10 native_log native_log2 native_log10 native_recip native_rsqrt native_sin native_sqrt native_tan
half_cos half_exp half_exp2 half_exp10 half_log half_log2 half_log10 half_recip half_rsqrt half_sin half_sqrt half_tan
"""
_BINARY = """
atan2 atan2pi copysign fdim fmax fmin fmod hypot maxmag minmag nextafter pow powr remainder max min step isequal isgreater isgreaterequal
isless islessequal islessgreater isnotequal isordered isunordered native_divide native_powr half_divide half_powr distance dot fast_distance
"""
_IDS = """
get_enqueued_local_size get_global_id get_global_offset get_global_size get_group_id get_local_id get_local_size get_num_groups
"""
_NO_ARGUMENT = """
get_global_linear_id get_local_linear_id get_work_dim get_enqueued_num_sub_groups get_max_sub_group_size get_num_sub_groups
get_sub_group_id get_sub_group_local_id get_sub_group_size
"""
_ATOMIC = ["add", "sub", "min", "max", "and", "or", "xor", "xchg"]

CALLS: dict[str, str] = {
    **{name: f"{name}(x) + {name}(v)" for name in _UNARY.split()},
    **{name: f"{name}(x, x) + {name}(v, v)" for name in _BINARY.split()},
    **{name: f"{name}(i)" for name in _IDS.split()},
    **{name: f"{name}()" for name in _NO_ARGUMENT.split()},
    **{
        name: f"{name}(x, x, x)"
        for name in ("fma", "mad", "clamp", "mix", "smoothstep", "bitselect")
    },
    "select": "select(x, x, i) + select(v, v, n)",
    **{name: f"{name}(x, p) + {name}(v, q)" for name in ("fract", "modf", "sincos")},
    **{name: f"{name}(x, e)" for name in ("frexp", "lgamma_r")},
    "remquo": "remquo(x, x, e)",
    **{name: f"{name}(x, i) + {name}(v, n)" for name in ("ldexp", "pown", "rootn")},
    "nan": "nan(u)",
    **{name: f"{name}(i) + {name}(n)" for name in ("abs", "clz", "ctz", "popcount")},
    **{
        name: f"{name}(i, i) + {name}(n, n)"
        for name in ["abs_diff", "add_sat", "hadd", "mul24", "mul_hi", "rhadd", "rotate", "sub_sat"]
    },
    **{name: f"{name}(i, i, i)" for name in ("mad24", "mad_hi", "mad_sat")},
    "upsample": "upsample(i, u)",
    "cross": "cross(v, v)",
    **{name: f"{name}(n)" for name in ("all", "any")},
    "shuffle": "shuffle(v, convert_uint4(n))",
    "shuffle2": "shuffle2(v, v, convert_uint4(n))",
    **{f"vload{lanes}": f"vload{lanes}(0, g)" for lanes in (2, 3, 4, 8, 16)},
    **{f"vstore{lanes}": f"vstore{lanes}((float{lanes})(x), 0, g)" for lanes in (2, 3, 4, 8, 16)},
    "vload_half": "vload_half(0, h)",
    "vstore_half": "vstore_half(x, 0, h)",
    **{
        f"vload{a}_half{lanes}": f"vload{a}_half{lanes}(0, h)"
        for a in ("", "a")
        for lanes in (2, 3, 4, 8, 16)
    },
    **{
        f"vstore{a}_half{lanes}": f"vstore{a}_half{lanes}((float{lanes})(x), 0, h)"
        for a in ("", "a")
        for lanes in (2, 3, 4, 8, 16)
    },
    **{
        f"convert_{name}": f"convert_{name}(x)"
        for name in [
            "char",
            "uchar",
            "short",
            "ushort",
            "int",
            "uint",
            "long",
            "ulong",
            "half",
            "float",
            "double",
        ]
    },
    **{
        name: f"{name}(CLK_LOCAL_MEM_FENCE)"
        for name in [
            "barrier",
            "mem_fence",
            "read_mem_fence",
            "write_mem_fence",
            "work_group_barrier",
        ]
    },
    "sub_group_barrier": "sub_group_barrier(CLK_LOCAL_MEM_FENCE)",
    "atomic_work_item_fence": "atomic_work_item_fence(CLK_LOCAL_MEM_FENCE, memory_order_acq_rel, memory_scope_work_group)",
    "async_work_group_copy": "t = async_work_group_copy(l, g, 4, 0)",
    "async_work_group_strided_copy": "t = async_work_group_strided_copy(l, g, 4, 2, 0)",
    "wait_group_events": "wait_group_events(1, &t)",
    "prefetch": "prefetch(g, 4)",
    **{
        f"{start}_{name}": f"{start}_{name}(a, i)"
        for name in _ATOMIC
        for start in ("atomic", "atom")
    },
    **{
        f"{start}_{name}": f"{start}_{name}(a)"
        for name in ("inc", "dec")
        for start in ("atomic", "atom")
    },
    **{f"{start}_cmpxchg": f"{start}_cmpxchg(a, i, i)" for start in ("atomic", "atom")},
    **{f"atomic_fetch_{name}": f"atomic_fetch_{name}(c, i)" for name in _ATOMIC[:-1]},
    **{
        f"atomic_fetch_{name}_explicit": f"atomic_fetch_{name}_explicit(c, i, memory_order_relaxed)"
        for name in _ATOMIC[:-1]
    },
    "atomic_init": "atomic_init(c, i)",
    "atomic_load": "atomic_load(c)",
    "atomic_load_explicit": "atomic_load_explicit(c, memory_order_acquire)",
    "atomic_store": "atomic_store(c, i)",
    "atomic_store_explicit": "atomic_store_explicit(c, i, memory_order_release)",
    "atomic_exchange": "atomic_exchange(c, i)",
    "atomic_exchange_explicit": "atomic_exchange_explicit(c, i, memory_order_relaxed)",
    **{
        f"atomic_compare_exchange_{way}": f"atomic_compare_exchange_{way}(c, e, i)"
        for way in ("strong", "weak")
    },
    **{
        f"atomic_compare_exchange_{way}_explicit": f"atomic_compare_exchange_{way}_explicit(c, e, i, memory_order_relaxed, memory_order_relaxed)"
        for way in ("strong", "weak")
    },
    "atomic_flag_test_and_set": "atomic_flag_test_and_set((global atomic_flag *)c)",
    "atomic_flag_test_and_set_explicit": "atomic_flag_test_and_set_explicit((global atomic_flag *)c, memory_order_relaxed)",
    "atomic_flag_clear": "atomic_flag_clear((global atomic_flag *)c)",
    "atomic_flag_clear_explicit": "atomic_flag_clear_explicit((global atomic_flag *)c, memory_order_relaxed)",
    **{f"sub_group_{name}": f"sub_group_{name}(i)" for name in ("all", "any")},
    "sub_group_broadcast": "sub_group_broadcast(x, 0)",
    **{
        f"sub_group_shuffle{way}": f"sub_group_shuffle{way}(x, 1)"
        for way in ("", "_xor", "_up", "_down")
    },
    **{
        f"{scope}_group_{way}_{name}": f"{scope}_group_{way}_{name}(i) + {scope}_group_{way}_{name}(x)"
        for scope in ("sub", "work")
        for way in ("reduce", "scan_inclusive", "scan_exclusive")
        for name in ("add", "min", "max")
    },
    **{f"work_group_{name}": f"work_group_{name}(i)" for name in ("all", "any")},
    "work_group_broadcast": "work_group_broadcast(x, 0)",
    "printf": 'printf("%f", x)',
}


def kernel_of(name: str, call: str) -> str:
    """Return a program with one kernel that makes a call. `name` is that of the kernel."""
    return (
        f"kernel void {name}(global float *g, global half *h, volatile global int *a, volatile global atomic_int *c) {{\n"
        "local float l[64];\nfloat x = g[0]; float4 v = vload4(0, g); int i = a[0]; uint u = i; int4 n = (int4)(i);\n"
        "float y; float *p = &y; float4 z; float4 *q = &z; int j = i; int *e = &j; event_t t = 0;\n"
        f"{call};\n}}\n"
    )
