"""Kernels in OpenCL C, compiled for CUDA: they compute what NumPy does, as those of the kind
opencl.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_il_functions
import test_il_kernels
from backend_checks import run_python
from one_source import (
    ONE_SOURCE_CASES,
    OPENCL_C,
    REPOSITORY,
    SMALL_ONE_SOURCE_CASES,
    check_one_source,
    compile_one_source,
)
from standin_cuda import on_hardware

import devmod

pytestmark = pytest.mark.row("R58")
TARGET = test_il_kernels.TARGETS["CUDA"]


@pytest.fixture
def target(device: Any) -> str:
    """The target of the tests of OpenCL's SPIR-V, which run here too."""
    return "CUDA"


for _module in (test_il_kernels, test_il_functions):
    for _name, _test in vars(_module).copy().items():
        if _name.startswith("test_") and _name not in (
            "test_print",
            "test_conversions_with_a_rounding",
            "test_geometric_functions",  # compilers/targets/tests/test_opencl_math.py has it
        ):
            globals()[_name] = _test


@pytest.mark.row("R37")
def test_one_call_for_three_kinds(device: Any) -> None:
    kinds = ["opencl", "vulkan"]
    others = [each for kind in kinds for each in devmod.devices(kind)[:1]]
    if len(others) < len(kinds):
        pytest.skip("OpenCL or Vulkan has no device here")
    modules = [
        module
        for target in ("opencl", "vulkan", TARGET)
        for _, module in compile_one_source(REPOSITORY, "OpenCL C", target)
    ]
    module = devmod.loads(devmod.dumps(devmod.bundle(*modules)))
    for name in (*OPENCL_C, "resize"):
        for each in (*others, device):
            functions = {key: module[key].on(each) for key in ONE_SOURCE_CASES[name][1]}
            result = SMALL_ONE_SOURCE_CASES[name](functions, each, REPOSITORY)
            assert result.error <= result.tolerance, f"{name} on {each}: {result.error:g}"


def test_print(cuda_environment: dict[str, str]) -> None:
    """The simulated GPU prints in a process of its own, which has the output of its first use."""
    if on_hardware():
        pytest.skip("reads the output of the stand-in driver")
    folder = str(Path(test_il_kernels.__file__).parent)
    program = (
        f"import sys\nsys.path.append({folder!r})\nimport test_il_kernels\n"
        "print(test_il_kernels.print_values('CUDA'), end='', file=sys.stderr)\nprint('end')"
    )
    v = np.array([1, -2.5], "float32")
    words = ",".join(str(each) for each in v.view("uint32"))
    assert sorted(run_python(program, **cuda_environment).splitlines()) == sorted(
        [
            "start   a%b|abc   |%\\41",
            "300 -2.50 12c0000000000 q 44",
            f"1.0,-2.5,3.0,4.0 {words} 0xffff,0xffff,0xffff -1,2 0.5",
            "end",
        ]
    )


def test_conversions_with_a_rounding(target: str) -> None:
    test_il_kernels.check_rounded(target)


@pytest.mark.row("R37")
def test_the_examples(device: Any) -> None:
    check_one_source(device, "OpenCL C", TARGET, [*OPENCL_C, "resize"])


#: Functions of half whose result is that of float, rounded.
ROUNDED = [
    *(
        f"{name}(A)"
        for name in [
            "acos",
            "acosh",
            "acospi",
            "asin",
            "asinh",
            "asinpi",
            "atan",
            "atanh",
            "atanpi",
            "cbrt",
            "ceil",
            "cos",
            "cosh",
            "cospi",
            "degrees",
            "erf",
            "erfc",
            "exp",
            "exp10",
            "exp2",
            "expm1",
            "fabs",
            "floor",
            "lgamma",
            "log",
            "log10",
            "log1p",
            "log2",
            "logb",
            "radians",
            "rint",
            "round",
            "rsqrt",
            "sign",
            "sin",
            "sinh",
            "sinpi",
            "sqrt",
            "tan",
            "tanh",
            "tanpi",
            "tgamma",
            "trunc",
        ]
    ),
    *(
        f"{name}(A, B)"
        for name in [
            "atan2",
            "atan2pi",
            "copysign",
            "fdim",
            "fmax",
            "fmin",
            "fmod",
            "hypot",
            "max",
            "maxmag",
            "min",
            "minmag",
            "pow",
            "powr",
            "remainder",
            "step",
            "dot",
            "distance",
        ]
    ),
    *(
        "ldexp(A, I)",
        "pown(A, I)",
        "rootn(A, I)",
        "smoothstep(A, B, C)",
        "clamp(A, B, C)",
        "length(A)",
    ),
]
#: Those whose result is another one, with that result.
OTHERS = [
    ("nextafter(A, B)", lambda a, b, i: np.nextafter(a, b)),
    (
        "isnormal(A) + 2 * isnan(A) + 4 * isinf(A) + 8 * signbit(A)",
        lambda a, b, i: (
            (np.isfinite(a) & (np.abs(a) >= 2.0**-14))
            + 2 * np.isnan(a)
            + 4 * np.isinf(a)
            + 8 * np.signbit(a)
        ),
    ),
    (
        "isequal(A, B) + 2 * isless(A, B) + 4 * isunordered(A, B)",
        lambda a, b, i: (a == b) + 2 * (a < b) + 4 * (np.isnan(a) | np.isnan(b)),
    ),
    ("select(A, B, (short)I)", lambda a, b, i: np.where(i != 0, b, a)),
    (
        "bitselect(A, B, C)",
        lambda a, b, i: (
            (a.view("uint16") & ~np.float16(0.75).view("uint16"))
            | (b.view("uint16") & np.float16(0.75).view("uint16"))
        ).view("float16"),
    ),
    ("shuffle2((half4)(A, B, C, 1), (half4)(2, B, C, A), (ushort2)(7, 4)).x", lambda a, b, i: a),
    ("vload3(0, p).y + vload2(1, p).x * 0", lambda a, b, i: np.full_like(a, 0.5)),
    ("fma(A, B, C)", lambda a, b, i: (a.astype("float64") * b + 0.75).astype("float16")),
]


def test_functions_of_half(target: str) -> None:
    """Those of vectors are the same, lane by lane."""
    a = np.array(
        [
            0,
            -0.0,
            6e-8,
            -6e-5,
            1e-3,
            0.3,
            -0.5,
            0.75,
            1,
            -1.5,
            2,
            3.5,
            -7,
            11.25,
            100,
            65504,
            np.inf,
            -np.inf,
            np.nan,
        ],
        "float16",
    )
    a, b = (each.ravel() for each in np.meshgrid(a, a))
    i = (np.arange(a.size) % 5 - 1).astype("int32")
    lines = []
    for call in ROUNDED:
        lines.append(
            f"{{ half A = a, B = b, C = c; int I = i; out[0] = {call}; }}"
            f"{{ float A = a, B = b, C = c; int I = i; out[1] = {call}; }} out += 2;"
        )
        if "dot" not in call and "distance" not in call and "length" not in call:
            lines.append(
                f"{{ half3 A = a, B = b, C = c; int3 I = i; out[0] = ({call}).z; }}"
                f"{{ half A = a, B = b, C = c; int I = i; out[1] = {call}; }} out += 2;"
            )
        else:
            lines.append("out[0] = out[1] = 0; out += 2;")
    for call, _ in OTHERS:
        lines.append(f"{{ half A = a, B = b, C = c; int I = i; out[0] = {call}; }} out += 1;")
    count = 4 * len(ROUNDED) + len(OTHERS)
    text = (
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
        "kernel void k(global const half *x, global const half *y, global const int *n, global half *outs) {\n"
        "int t = get_global_id(0); half a = x[t], b = y[t], c = 0.75h; int i = n[t];\n"
        f"half p[4] = {{0, 0.5h, 1, 2}}; global half *out = outs + t * {count};\n"
        + "\n".join(lines)
        + "\n}"
    )
    out = np.zeros((a.size, count), "float16")
    test_il_kernels.run(target, "k", a, b, i, out, grid=a.size, block=1, text=text)
    with np.errstate(all="ignore"):
        for number, call in enumerate(ROUNDED):
            for start, what in ((4 * number, call), (4 * number + 2, f"{call} of vectors")):
                np.testing.assert_array_equal(out[:, start], out[:, start + 1], err_msg=what)
        for number, (call, exact) in enumerate(OTHERS):
            np.testing.assert_array_equal(
                out[:, 4 * len(ROUNDED) + number], exact(a, b, i), err_msg=call
            )


SUB_GROUPS = """
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle_relative : enable
kernel void k(global const T *x, global T *out) {
    int i = get_global_id(0);
    T v = x[i];
    global T *o = out + 13 * i;
    o[0] = sub_group_reduce_add(v); o[1] = sub_group_reduce_min(v); o[2] = sub_group_reduce_max(v);
    o[3] = sub_group_scan_inclusive_add(v); o[4] = sub_group_scan_exclusive_add(v);
    o[5] = sub_group_scan_inclusive_max(v); o[6] = sub_group_broadcast(v, 2);
    o[7] = sub_group_shuffle_xor(v, 1); o[8] = sub_group_shuffle_up(v, 1); o[8] = get_sub_group_local_id() ? o[8] : v;
    o[9] = sub_group_shuffle(v, get_sub_group_local_id() / 2);
    o[10] = get_sub_group_size(); o[11] = get_sub_group_id(); o[12] = get_num_sub_groups() + get_max_sub_group_size();
    sub_group_barrier(CLK_LOCAL_MEM_FENCE);
}
"""


@pytest.mark.volume_but("int", "double")
@pytest.mark.parametrize(
    ("type_", "dtype"),
    [
        ("int", "int32"),
        ("uint", "uint32"),
        ("long", "int64"),
        ("ulong", "uint64"),
        ("float", "float32"),
        ("double", "float64"),
        ("half", "float16"),
    ],
)
def test_sub_groups(type_: str, dtype: str, target: str) -> None:
    """The last sub-group of the block has 18 threads."""
    x = np.arange(50).astype(dtype) % 7
    out = np.zeros((50, 13), dtype)
    text = f"//devmod: -cl-std=CL2.0\n#define T {type_}\n{SUB_GROUPS}"
    test_il_kernels.run(target, "k", x, out, grid=1, block=50, text=text)
    for number, lanes in enumerate((slice(0, 32), slice(32, 50))):
        v, o = x[lanes], out[lanes].T
        ids = np.arange(v.size)
        for row, expected in enumerate(
            (
                v.sum(),
                v.min(),
                v.max(),
                v.cumsum(),
                v.cumsum() - v,
                np.maximum.accumulate(v),
                v[2],
                v[ids ^ 1],
                v[np.maximum(ids - 1, 0)],
                v[ids // 2],
                v.size,
                number,
                2 + 32,
            )
        ):
            np.testing.assert_array_equal(
                o[row], np.broadcast_to(expected, v.shape), err_msg=str(row)
            )


ATOMICS = """
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
kernel void k(volatile global T *x, local T *shared) {
    int i = get_local_id(0);
    if (i == 0)
        shared[0] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atom_add(&x[0], (T)i); atom_sub(&x[1], (T)i); atom_min(&x[2], (T)i); atom_max(&x[3], (T)i);
    atom_or(&x[4], (T)1 << i); atom_xor(&x[5], (T)1 << i); atom_and(&x[6], ~((T)1 << i)); atom_inc(&x[7]); atom_dec(&x[8]);
    for (T old = x[9]; ; ) {
        T seen = atom_cmpxchg(&x[9], old, old + i);
        if (seen == old)
            break;
        old = seen;
    }
    atom_add((volatile local T *)shared, (T)i);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i == 0)
        x[10] = atom_xchg(&x[11], shared[0]);
#if __OPENCL_C_VERSION__ >= 200
    volatile global A *a = (volatile global A *)&x[12];
    atomic_fetch_add_explicit(a, (T)i, memory_order_relaxed, memory_scope_device);
    atomic_fetch_max(a + 1, (T)i);
    T expected = atomic_load(a + 2);
    while (!atomic_compare_exchange_weak(a + 2, &expected, expected + i))
        ;
    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_work_group);
    work_group_barrier(CLK_GLOBAL_MEM_FENCE, memory_scope_device);
    if (i == 0)
        atomic_store_explicit(a + 3, atomic_exchange(a, (T)-1), memory_order_release);
#endif
}
"""


@pytest.mark.parametrize("version", ["1.2", "2.0"])
@pytest.mark.parametrize(("type_", "dtype"), [("long", "int64"), ("ulong", "uint64")])
def test_atomics_of_64_bits(type_: str, dtype: str, version: str, target: str) -> None:
    x = np.zeros(16, dtype)
    x[[1, 2, 6, 8]] = 2**40 - 1
    text = f"#define T {type_}\n#define A atomic_{type_}\n{ATOMICS}"
    if version == "2.0":
        text = f"//devmod: -cl-std=CL2.0\n{text}"
    test_il_kernels.module_of(target, text)["k"](x, devmod.Local(8), grid=1, block=40)
    sum_, ones = 780, 2**40 - 1
    expected = [sum_, ones - sum_, 0, 39, ones, ones, 0, 40, ones - 40, sum_, 0, sum_]
    if version == "2.0":
        expected += [np.array(-1).astype(dtype), 39, sum_, sum_]
    assert x[: len(expected)].tolist() == [int(each) for each in expected]


SWAP = """
struct two { T a, b; };
kernel void k(global T *x, global T *y, local T *part, global struct two *z) {
    int l = get_local_id(0);
    part[l] = x[l];
    T t = part[l]; part[l] = y[l]; y[l] = t;
    x[l] = part[l];
    struct two s = z[l]; z[l].a = s.b; z[l].b = s.a;
}
"""


@pytest.mark.parametrize("type_", ["long16", "ulong16", "double16", "float16"])
def test_large_vectors_are_swapped(type_: str, device: Any) -> None:
    """LLVM makes a copy of a load of 128 bytes and its store, in the place of the store."""
    dtype = {"long16": "int64", "ulong16": "uint64", "double16": "float64", "float16": "float32"}
    x, y = (np.arange(64).reshape(4, 16) + first for first in (1, 300))
    x, y = x.astype(dtype[type_]), y.astype(dtype[type_])
    pairs = np.zeros(4, [("a", x.dtype, 16), ("b", x.dtype, 16)])
    pairs["a"], pairs["b"] = x + 1000, y + 2000
    one, two, swapped = x.copy(), y.copy(), pairs.copy()
    module = devmod.compile(
        SWAP, "cuda -arch=compute_80", language="OpenCL C", defines={"T": type_}
    )
    part = devmod.Local(x.nbytes)
    module["k"](one.ravel(), two.ravel(), part, swapped, grid=1, block=4)
    np.testing.assert_array_equal(one, y)
    np.testing.assert_array_equal(two, x)
    np.testing.assert_array_equal(swapped["a"], pairs["b"])
    np.testing.assert_array_equal(swapped["b"], pairs["a"])
