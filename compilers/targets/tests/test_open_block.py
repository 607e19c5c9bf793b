"""The block of a call that names none: kernels that give the same result with every block, and
hints of the source.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import devmod

pytestmark = pytest.mark.once  # devmod's own parser

METAL = "#include <metal_stdlib>\nusing namespace metal;\n"
HEAD = """
#define COUNT 4
#define LOCAL get_local_id(0)
#define APPLY(g, x) g(x)
#define JOIN(a, b) a##b
typedef struct { float x; } Plain;
constant float table[] = { 1, 2 };
static float square(float x) { return x * x; }
static float through(float x) { return square(x) * LOCAL; }
static float deeper(float x) { return through(x); }
kernel void other(global float *x) { x[get_global_id(0)] = 0; barrier(CLK_LOCAL_MEM_FENCE); }
"""


def opened(source: str, kind: str, name: str = "k", **keywords: object) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # unknown names
        interface = devmod.compile(source, kind, **keywords).functions[name].interface  # type: ignore[arg-type]
    assert interface is not None
    return interface.open_block


@pytest.mark.parametrize(
    "body",
    [
        "uint i = get_global_id(0); if (i < n) x[i] = square(x[i]) * table[1] + convert_float(COUNT);",
        "size_t i = get_global_id(1) - get_global_offset(1); for (int j = 0; j < n; j++) { x[i] = fma(x[i], native_sin(2.0f), (float)(j)); }",
        "/* barrier(CLK_LOCAL_MEM_FENCE); */ x[get_global_id(0)] = vload4(0, x).s0; // get_local_id(0)\n",
        "x[get_global_id(0)] = as_float(atomic_inc((volatile global int *)x)) + sizeof(Plain);",
        'x[0] = "get_local_id"[0];',
        "other2(x);",
    ],
)
def test_an_opencl_kernel_of_global_ids_alone_is_open(body: str) -> None:
    source = f"{HEAD} kernel void other2(global float *x) {{ x[0] = 1; }} kernel void k(global float *x, int n) {{ {body} }}"
    assert opened(source, "opencl")


@pytest.mark.parametrize(
    "body",
    [
        "x[get_local_id(0)] = 1;",
        "x[get_group_id(0)] = 1;",
        "x[0] = get_local_size(0);",
        "x[0] = get_num_groups(0);",
        "for (uint i = get_global_id(0); i < n; i += get_global_size(0)) x[i] = 1;",
        "barrier(CLK_LOCAL_MEM_FENCE); x[0] = 1;",
        "local float t[4]; x[0] = t[n];",
        "__local float t[4]; x[0] = t[n];",
        "x[0] = LOCAL;",
        "x[0] = deeper(1);",
        "other(x);",
        "x[0] = APPLY(get_local_id, 0);",
        "x[0] = APPLY(square, 1);",  # a macro's argument is called: unknown
        "x[0] = JOIN(get_lo, cal_id)(0);",
        "x[0] = arm_lane(0);",
        "x[0] = sub_group_reduce_add(x[0]);",
        "x[0] = work_group_reduce_add(x[0]);",
        'printf("%f", x[0]);',
        "event_t e = async_work_group_copy((local float *)0, x, 4, 0);",
        "\n#ifdef cl_khr_subgroups\nx[0] = get_sub_group_local_id();\n#else\nx[0] = 1;\n#endif\n",
    ],
)
def test_an_opencl_kernel_that_may_depend_on_its_block_is_not_open(body: str) -> None:
    assert not opened(f"{HEAD} kernel void k(global float *x, int n) {{ {body} }}", "opencl")


@pytest.mark.parametrize(
    "source",
    [
        "kernel void k(global float *x, local float *t) { x[get_global_id(0)] = 1; }",
        "kernel __attribute__((reqd_work_group_size(64, 1, 1))) void k(global float *x) { x[get_global_id(0)] = 1; }",
        "#define KERNEL(name) kernel void name(global float *x)\nKERNEL(k) { x[get_global_id(0)] = 1; }",
        "#define BEGIN {\nkernel void k(global float *x) BEGIN x[get_local_id(0)] = 1; }",
        "kernel void k(global float *x) {\n#ifdef A\nif (x[0]) {\n#else\n{\n#endif\nx[get_global_id(0)] = 1; } }",
        "#define BEGIN {\n#define END }\nstatic float f(float x) BEGIN x += 1; return get_local_id(0); END\n"
        "kernel void k(global float *x) { x[0] = f(1); }",
        "typedef local float *Shared; kernel void k(global float *x, Shared t) { x[get_global_id(0)] = 1; }",
    ],
)
def test_kernels_whose_text_does_not_show_it_are_not_open(source: str) -> None:
    assert not opened(source, "opencl")


def test_a_kernel_whose_name_is_a_macro() -> None:
    source = "kernel void NAME(global float *x) { x[get_global_id(0)] = 1; }"
    assert opened(source, "opencl", defines={"NAME": "k"})
    assert opened(f"#define NAME k\n{source}", "opencl")
    assert not opened(source.replace("global_id", "local_id"), "opencl", defines={"NAME": "k"})
    # Another text may have the name, in the branch of a condition that the receiver's compiler
    # takes.
    other = "kernel void OTHER(global float *x) { x[get_local_id(0)] = 1; }"
    assert not opened(
        f"#ifndef A\n{source}\n#else\n#define OTHER k\n{other}\n#endif",
        "opencl",
        defines={"NAME": "k"},
    )
    assert not opened(
        f"#ifndef A\n{source}\n#else\n{other.replace('OTHER', 'k')}\n#endif",
        "opencl",
        defines={"NAME": "k"},
    )
    whole = "#define WHOLE(name) kernel void name(global float *x) { x[get_local_id(0)] = 1; }"
    assert not opened(
        f"{whole}\n#ifndef A\n{source}\n#else\nWHOLE(k)\n#endif", "opencl", defines={"NAME": "k"}
    )


def test_a_kernel_whose_name_a_macro_joins() -> None:
    body = "(global float *x) { x[get_global_id(0)] = 1; }"
    source = f"kernel void NAME(one){body}"
    local = source.replace("global_id", "local_id").replace("one", "two")
    plain, joined = "#define NAME(x) x\n", "#define  NAME( f ) f##_##64 /* wide */\n"
    assert opened(plain + source, "opencl", "one")
    assert opened(joined + source, "opencl", "one_64")
    both = (
        "#define NAME(x, T) T##x\n"
        + source.replace("one", "one, f_")
        + local.replace("two", "two, f_")
    )
    assert opened(both, "opencl", "f_one")
    assert not opened(both, "opencl", "f_two")
    # The definition of a compile comes before that of the source.
    guarded = f"#ifndef NAME\n{plain}#endif\n{source}\n{local}"
    for defines, suffix in (({}, ""), ({"NAME(x)": "x##_wide"}, "_wide")):
        assert opened(guarded, "opencl", f"one{suffix}", defines=defines)
        assert not opened(guarded, "opencl", f"two{suffix}", defines=defines)


@pytest.mark.parametrize(
    "source",
    [
        # A name that is joined is one of a built-in function.
        "#define GET(x) get_##x##_id(0)\nkernel void k(global float *x) { x[GET(local)] = 1; }",
        "#define GET(x) get_##x##_id\nkernel void k(global float *x) { x[GET(local)(0)] = 1; }",
        "#define ID get_local_id\n#define GET(x) x\nkernel void k(global float *x) { x[GET(ID)(0)] = 1; }",
        # Without A, another kernel has the name.
        "#ifdef A\n#define NAME(x) x\nkernel void k(global float *x) { x[get_global_id(0)] = 1; }\n#else\n#define NAME(x) k\n#endif\n"
        "kernel void NAME(o)(global float *x) { x[get_local_id(0)] = 1; }",
        # With B alone, a receiver has the first of one macro and the second of another.
        "#ifndef A\n#define NAME(x) x\n#else\n#define NAME(x) x##2\n#endif\n#ifndef B\n#define G(x) get_##x##_id\n#else\n#define G(x) get_local_id\n#endif\n"
        "kernel void NAME(k)(global float *x) { x[G(global)(0)] = 1; }",
        # A macro in another one, whose parameter has the name of an innocent function.
        "#define GET(x) get_##x\n#define USE(global_id) GET(global_id)(0)\nkernel void k(global float *x) { x[USE(local_id)] = 1; }",
    ],
)
def test_joined_names_that_may_depend_on_the_block(source: str) -> None:
    assert not opened(source, "opencl")


def test_defines_and_includes_are_searched(tmp_path: Path) -> None:
    (tmp_path / "ids.h").write_text("#define ID get_local_id(0)\n")
    source = "kernel void k(global float *x) { x[ID] = 1; }"
    assert opened(source, "opencl", defines={"ID": "get_global_id(0)"})
    assert not opened(source, "opencl", defines={"ID": "get_local_id(0)"})
    assert not opened(f'#include "ids.h"\n{source}', "opencl", include=[tmp_path])


def test_a_hint_is_the_default_block() -> None:
    source = """
__attribute__((work_group_size_hint(32, 2, 1))) kernel void a(global float *x) { x[get_local_id(0)] = 1; }
__attribute__((work_group_size_hint(32, 2, 1), reqd_work_group_size(8, 1, 1))) kernel void b(global float *x) { x[0] = 1; }
kernel __attribute__((work_group_size_hint(16, 1, 1))) void c(global float *x) { x[get_global_id(0)] = 1; }
"""
    found = {
        name: info.interface for name, info in devmod.compile(source, "opencl").functions.items()
    }
    assert {
        name: (each.block, each.default_block, each.open_block)
        for name, each in found.items()
        if each
    } == {
        "a": (None, (32, 2, 1), False),
        "b": ((8, 1, 1), None, False),
        "c": (None, (16, 1, 1), True),
    }


OWN = "device float *x [[buffer(0)]], constant int &n [[buffer(1)]], uint i [[thread_position_in_grid]]"
METAL_HEAD = (
    METAL
    + "struct P { float a; };\nstatic float square(float x) { return x * x; }\nstatic float all(float x) { return simd_sum(x); }\n"
)


@pytest.mark.parametrize(
    ("arguments", "body", "expected"),
    [
        (
            OWN,
            "if (i < uint(n)) x[i] = square(x[i]) + float4(1).x + as_type<float>(3u) + max(x[i], 1.0f) + P{1}.a;",
            True,
        ),
        (OWN, "for (int j = 0; j < n; j++) x[i] += precise::sin(x[i]);", True),
        (OWN, "x[i] = simd_sum(x[i]);", False),
        (OWN, "x[i] = all(x[i]);", False),
        (OWN, "threadgroup float t[4]; x[i] = t[0];", False),
        (OWN, "threadgroup_barrier(mem_flags::mem_none); x[i] = 1;", False),
        (OWN, "x[i] = quad_shuffle(x[i], 0);", False),
        (OWN + ", threadgroup float *t [[threadgroup(0)]]", "x[i] = 1;", False),
        (OWN + ", uint l [[thread_position_in_threadgroup]]", "x[i] = l;", False),
        (OWN + ", uint l [[threadgroup_position_in_grid]]", "x[i] = l;", False),
        (OWN + ", uint l [[threads_per_grid]]", "x[i] = l;", False),
        (OWN + ", uint l [[thread_index_in_simdgroup]]", "x[i] = l;", False),
        (OWN, "x[i] = unknown_function(1);", False),
        (OWN, "x[i] = unknown_lane;", False),
    ],
)
def test_a_metal_kernel_of_grid_positions_alone_is_open(
    arguments: str, body: str, expected: bool
) -> None:
    assert opened(f"{METAL_HEAD}kernel void k({arguments}) {{ {body} }}", "metal") is expected


def test_metal_namespaces_templates_and_operators() -> None:
    template = "template <typename T> kernel void scale(device T *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = T(2); }\n"
    instance = 'template [[host_name("k")]] [[kernel]] decltype(scale<float>) scale<float>;\n'
    inside = "namespace n { kernel void m(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = 2; } }\n"
    source = METAL + template + instance + inside
    assert opened(source, "metal")
    assert opened(source, "metal", "n::m")
    operators = "struct V { float a; }; static V operator+(V a, V b) { return V{simd_sum(a.a)}; }\n"
    assert not opened(source + operators, "metal")


def test_tvms_kernels_and_kernels_of_a_declared_interface_stay_as_they_are() -> None:
    source = "kernel void k(global float *x) { x[get_global_id(0)] = 1; }"
    given = devmod.FunctionInfo(
        "k", ["handle"], interface=devmod.Interface([devmod.Param("x", "buffer")])
    )
    interface = devmod.compile(source, "opencl", fmap={"k": given}).functions["k"].interface
    assert interface is not None
    assert not interface.open_block
