"""The compiler of OpenCL C: it reads signatures without OpenCL, from kernels like those of
benchmark suites.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from build_project import built_failure
from each_case import raised, refusal
from work import assert_linear

import devmod

KERNELS = Path(__file__).parent / "kernels" / "opencl"
Row = tuple[str, str, str, str, int]


def shape(info: devmod.FunctionInfo) -> list[Row]:
    assert info.interface is not None
    return [
        (param.name, param.kind, param.type, param.access, param.align)
        for param in info.interface.params
    ]


def buffer(name: str, element: str, access: str = "rw", align: int = 0) -> Row:
    return name, "buffer", element, access, align


def scalar(name: str, element: str, align: int = 0) -> Row:
    return name, "scalar", element, "", align


def local(name: str, element: str) -> Row:
    return name, "local", element, "", 0


SIGNATURES: dict[str, dict[str, list[Row]]] = {
    "vector_add": {
        "vector_add": [
            buffer("a", "float32", "r"),
            buffer("b", "float32", "r"),
            buffer("c", "float32"),
            scalar("n", "uint32"),
        ]
    },
    "reduction": {
        "reduce": [
            buffer("in", "float32", "r"),
            buffer("out", "float32"),
            local("scratch", "float32"),
            scalar("n", "int32"),
        ],
        "fill_float": [
            buffer("out", "float32"),
            scalar("value", "float32"),
            scalar("count", "uint64"),
        ],
        "fill_uchar": [buffer("out", "uint8"), scalar("value", "uint8"), scalar("count", "uint64")],
        "fill_int4": [
            buffer("out", "int32x4"),
            scalar("value", "int32x4"),
            scalar("count", "uint64"),
        ],
    },
    "particles": {
        "advance": [
            buffer("particles", "uint8x48", "rw", 16),
            buffer("defaults", "uint8x25", "r", 1),
            scalar("now", "uint8x25", 1),
            scalar("seed", "uint8x4", 4),
            buffer("words", "uint8x4", "r", 4),
        ]
    },
    "vectors": {
        "scalars": [
            scalar("c", "int8"),
            scalar("uc", "uint8"),
            scalar("s", "int16"),
            scalar("us", "uint16"),
            scalar("i", "int32"),
            scalar("ui", "uint32"),
            scalar("l", "int64"),
            scalar("ul", "uint64"),
            scalar("f", "float32"),
            scalar("d", "float64"),
            scalar("h", "float16"),
            scalar("mode", "uint32"),
            buffer("out", "int32"),
        ],
        "lanes": [
            scalar("c", "int8x2"),
            scalar("uc", "uint8x3"),
            scalar("s", "int16x4"),
            scalar("i", "int32x8"),
            scalar("ul", "uint64x16"),
            scalar("f", "float32x3"),
            scalar("d", "float64x2"),
            scalar("h", "float16x4"),
            buffer("out", "float32x3"),
        ],
    },
    "images": {
        "blur": [
            ("in", "image", "2d", "r", 0),
            ("out", "image", "2d", "w", 0),
            ("how", "sampler", "", "", 0),
            buffer("weights", "float32", "r"),
            scalar("radius", "int32"),
        ],
        "slice": [
            ("volume", "image", "3d", "r", 0),
            ("layers", "image", "2d_array", "r", 0),
            buffer("histogram", "uint32x4"),
        ],
    },
    "pointers": {
        "pointers": [
            buffer("a", "float32", "r"),
            buffer("counter", "int32"),
            buffer("table", "uint8", "r"),
            local("tile", "float32x4"),
            local("opaque", ""),
            buffer("raw", ""),
            buffer("rows", "float32"),
            buffer("fixed", "uint64", "r"),
            buffer("halves", "float16"),
            buffer("tickets", "uint32"),
        ],
        "arrays": [
            buffer("x", "float32"),
            buffer("table", "int32", "r"),
            local("tile", "float32"),
            buffer("rows", "uint32", "r"),
        ],
    },
    "histogram": {
        "histogram": [
            buffer("pixels", "uint8x4", "r"),
            buffer("bins", "uint32"),
            local("own", "uint32"),
            scalar("count", "uint32"),
        ],
        "clear_slowly": [buffer("bins", "uint32"), scalar("value", "uint32")],
    },
    "matmul": {
        "matmul": [
            buffer("a", "float32", "r"),
            buffer("b", "float32", "r"),
            buffer("c", "float32"),
            scalar("shape", "uint8x12", 4),
        ]
    },
    "nbody": {
        "forces": [
            buffer("bodies", "float32x4", "r"),
            buffer("acceleration", "float32x4"),
            local("tile", "float32x4"),
            scalar("softening", "float32"),
            scalar("count", "int32"),
        ],
        "move": [
            buffer("bodies", "float32x4"),
            buffer("velocity", "float32x4"),
            buffer("acceleration", "float32x4", "r"),
            scalar("dt", "float32"),
        ],
    },
    "sort": {
        "bitonic": [
            buffer("keys", "uint32"),
            buffer("values", "int32"),
            scalar("stage", "uint32"),
            scalar("pass", "uint32"),
            scalar("direction", "uint32"),
        ]
    },
}
BLOCKS = {"reduce": (256, 1, 1), "matmul": (8, 8, 1), "move": (64, 1, 1)}


def build(stem: str, **defines: object) -> devmod.Module:
    if stem == "histogram":
        defines = {"BINS": 64, **defines}
    return devmod.compile(
        KERNELS / f"{stem}.cl", "opencl", include=KERNELS / "include", defines=defines
    )  # type: ignore[arg-type]


@pytest.mark.row("R29", "R37")
@pytest.mark.parametrize("stem", SIGNATURES)
def test_every_kernel_of_a_file_is_read(stem: str) -> None:
    functions = build(stem).functions
    assert {name: shape(info) for name, info in functions.items()} == SIGNATURES[stem]
    assert list(functions) == list(SIGNATURES[stem])
    for name, info in functions.items():
        assert info.name == name
        assert info.interface is not None
        assert info.interface.block == BLOCKS.get(name)
        assert list(info.arg_types) == [
            param.type if param.kind == "scalar" else "handle" for param in info.interface.params
        ]


@pytest.mark.row("R38")
@pytest.mark.parametrize("stem", SIGNATURES)
def test_a_payload_is_a_source_without_anything_beside_it(stem: str) -> None:
    module = build(stem)
    again = devmod.compile(module.inspect_source(), "opencl")
    assert again.functions == module.functions
    assert again.save_to_bytes() == module.save_to_bytes()


def test_every_file_has_its_signatures_here() -> None:
    assert {path.stem for path in KERNELS.glob("*.cl")} == set(SIGNATURES)


def test_conditions_and_sizes_follow_the_defines() -> None:
    assert list(build("histogram", WITH_CLEAR=None).functions) == ["histogram", "clear"]
    block = build("reduction", WG=64).functions["reduce"].interface
    assert block is not None
    assert block.block == (64, 1, 1)
    block = build("matmul", TILE="(4 * 4)").functions["matmul"].interface
    assert block is not None
    assert block.block == (16, 16, 1)


def test_options_in_the_source_apply() -> None:
    source = "//devmod: -DN=4 -cl-std=CL1.2\n__kernel __attribute__((reqd_work_group_size(N, 1, 1))) void k(__global int *pipe_) {}\n"
    found = devmod.compile(source, "opencl").functions["k"].interface
    assert found is not None
    assert found.block == (4, 1, 1)


@pytest.mark.row("R16", "R13")
def test_the_payload_is_the_source_itself() -> None:
    module = build("vector_add")
    text = (KERNELS / "vector_add.cl").read_text()
    assert (module.kind, module.format) == ("opencl", "cl")
    assert module.inspect_source() == module.inspect_source("cl") == text
    with pytest.raises(
        devmod.FormatError,
        match="opencl has no format 'spv'; its formats: cl, il, clbin, xclbin, awsxclbin, aocx",
    ):
        devmod.create_with_fallback("opencl", b"", "spv", {})


@pytest.mark.row("R13", "R26")
def test_the_default_key_of_a_source_is_cl() -> None:
    module = devmod.create_with_fallback(
        "opencl", b"\x00binary", "clbin", {}, {"cl": "kernel text", "ll": "other"}
    )
    assert module.inspect_source() == "kernel text"


@pytest.mark.parametrize("standard", ["CL1.1", "CL1.2", "CL2.0", "CL3.0"])
def test_the_language_versions(standard: str) -> None:
    source = "__kernel void k(__global float *x, __local int *y) { x[get_global_id(0)] = sincos(x[0], x) + M_PI_F; }\n"
    module = devmod.compile(source, "opencl", options=[f"-cl-std={standard}"])
    assert list(module.functions["k"].arg_types) == ["handle", "handle"]


def test_a_source_that_names_no_version_is_read_as_a_device_reads_it() -> None:
    # OpenCL's rule: without -cl-std= a program is of the highest 1.x that the device has.
    source = "#if __OPENCL_C_VERSION__ >= 200\nkernel void k(global int *x, int n) {}\n#else\nkernel void k(global int *x) {}\n#endif\n"
    assert list(devmod.compile(source, "opencl").functions["k"].arg_types) == ["handle"]
    assert list(
        devmod.compile(source, "opencl", options=["-cl-std=CL2.0"]).functions["k"].arg_types
    ) == ["handle", "int32"]


KINDS = ["opencl", "opencl -format=il", "vulkan", "cuda -arch=sm_80", "rocm -arch=gfx1100"]


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize(
    ("declared", "call"),
    [
        ("float f(float x);", "f(1)"),
        ("float g(float x);\nfloat f(float x);\nfloat g(float x) { return x; }", "g(f(1))"),
        # An overload that is not defined.
        (
            "#define OV __attribute__((overloadable))\nfloat OV f(float x);\nint OV f(int x) { return x; }",
            "f(1.0f) + f(1)",
        ),
    ],
)
def test_a_kernel_that_calls_an_undefined_function_is_an_error_of_each_kind(
    target: str, declared: str, call: str
) -> None:
    source = f"{declared}\nfloat h(float x) {{\n return {call}; }}\nkernel void k(global float *x) {{ x[0] = h(x[0]); }}"
    line = declared.count("\n") + 3
    column = 9 + call.index("f(")
    text = refusal(
        devmod.CompileError, devmod.compile, source, target, language="OpenCL C", options=["-w"]
    )
    assert text == (
        f"the OpenCL C source does not compile: <text>:{line}:{column}: error: the program calls the function 'f', which it does not define"
    )


def test_functions_that_drivers_define_may_be_declared() -> None:
    for source in (
        # No kernel calls it.
        "float f(float x);\nfloat g(float x) { return f(x); }\nkernel void k(global float *x) { x[0] = 1; }",
        "float f(float x);\nkernel void k(global float *x) { if (sizeof(int) == 8) x[0] = f(1); }",
        "float f(float x);\nkernel void k(global float *x) { x[0] = 0 ? f(1) : 2; }",
        # Functions of OpenCL C, and those of a vendor.
        "float sqrt(float x);\nkernel void k(global float *x) { x[0] = sqrt(2.0f); }",
        "size_t get_global_id(uint axis);\nkernel void k(global float *x) { x[get_global_id(0)] = 1; }",
        "float __attribute__((overloadable)) sin(float);\nkernel void k(global float *x) { x[0] = sin(2.0f); }",
        "float __ocml_sin_f32(float);\nkernel void k(global float *x) { x[0] = __ocml_sin_f32(2); }",
        "uint amd_bfe(uint, uint, uint);\nkernel void k(global uint *x) { x[0] = amd_bfe(2, 1, 1); }",
        "float f(float);\nkernel void k(global float *x) { x[0] = f(2); }\nfloat f(float x) { return x; }",
    ):
        assert [*devmod.compile(source, "opencl").functions] == ["k"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            "global int seen;\nkernel void k(global int *x) {}\n",
            "1:12: program scope variable must reside in constant address space",
        ),
        (
            "kernel void k(global int *x) {\n  atomic_int y;\n}\n",
            "2:3: use of undeclared identifier 'atomic_int'",
        ),
    ],
)
def test_a_source_for_2_0_without_the_option_is_a_warning(source: str, why: str) -> None:
    with pytest.warns(UserWarning, match="OpenCL C 2") as caught:
        module = devmod.compile(source, "opencl")
    (warning,) = caught
    assert str(warning.message) == (
        f"the OpenCL C source <text> is OpenCL C 2.0, but devices compile it as 1.2 by default: <text>:{why}. Add options=['-cl-std=CL2.0']"
    )
    assert warning.filename == __file__
    assert list(module.functions) == ["k"]
    devmod.compile(source, "opencl", options=["-cl-std=CL2.0"])


def test_a_vendors_branch_is_not_taken() -> None:
    source = "#if defined(cl_intel_subgroups) || defined(cl_amd_media_ops)\n#error a vendor's\n#endif\nkernel void k() {}\n"
    assert list(devmod.compile(source, "opencl").functions) == ["k"]


def test_a_language_version_that_is_none() -> None:
    assert (
        refusal(
            devmod.CompileError,
            devmod.compile,
            "kernel void k() {}",
            "opencl",
            options=["-cl-std=CL9"],
        )
        == "the opencl option '-cl-std=CL9' is not supported: a receiver does not pass it to its driver. Expected an option of OpenCL such as "
        "-cl-std=CL2.0, -cl-mad-enable or -w. Did you mean '-cl-std=CLC++'?"
    )


def test_extensions_and_built_in_functions_are_known() -> None:
    source = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#if __OPENCL_VERSION__ < 120
#error too old
#endif
kernel void k(global double *d, global half *h, global float4 *v, global int *n, local float *t, global long *w) {
  d[0] = fma(d[1], M_PI, DBL_MAX) + convert_double_rte(n[0]);
  h[0] = h[1] * (half)2 + vload_half(0, h);
  v[0] = clamp(as_float4(convert_int4_sat(v[1])), 0.0f, INFINITY).wzyx + select(v[1], v[2], (int4)(-1)) + NAN;
  n[0] = atomic_cmpxchg(n, 1, mad24(2, 3, popcount(n[1]))) + (int)CLK_RGBA + INT_MAX + atom_inc(n);
  atom_add(w, LONG_MIN);
  event_t event = async_work_group_copy(t, (const global float *)v, 4, 0);
  wait_group_events(1, &event);
  vstore4(vload4(0, t), 1, t);
  mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  work_group_barrier(CLK_LOCAL_MEM_FENCE);
  n[1] = work_group_reduce_add(n[0]) + sub_group_broadcast(n[2], 0);
  atomic_fetch_add_explicit((global atomic_int *)n, 1, memory_order_relaxed, memory_scope_device);
  printf("%f %v4f\\n", t[0], v[0]);
}
"""
    assert (
        len(devmod.compile(source, "opencl", options=["-cl-std=CL2.0"]).functions["k"].arg_types)
        == 6
    )


# -- what is wrong with a source


def failure(source: str | Path, **arguments: object) -> devmod.CompileError:
    error = raised(devmod.CompileError, devmod.compile, source, "opencl", **arguments)
    assert error.kind == "opencl"
    return error


def test_syntax_errors_have_file_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "bad.h").write_text("\n\nint broken(\n;\n")
    (tmp_path / "k.cl").write_text(
        '// one\n#include "bad.h"\nkernel void k(global int *x) {\n  x[0] = ;\n  x[1] = y;\n}\n'
    )
    error = failure(tmp_path / "k.cl", defines={"A": 1, "B": 2}, options=["-w"])
    assert (
        str(error)
        == "the OpenCL C source does not compile: bad.h:4:1: error: expected parameter declarator (and 3 more in .log)"
    )
    assert error.log == (
        "bad.h:4:1: error: expected parameter declarator\n"
        "bad.h:4:1: error: expected ')'\n"
        "k.cl:4:10: error: expected expression\n"
        "k.cl:5:10: error: use of undeclared identifier 'y'"
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("kernel void k(global int *x) { x[0] = ; }", "<text>:1:39: error: expected expression"),
        (
            "kernel void k(size_t n) {}",
            "<text>:1:22: error: '__private size_t' (aka '__private unsigned long') cannot be used as the type of a kernel parameter",
        ),
        (
            "kernel void k(bool b) {}",
            "<text>:1:20: error: '__private bool' cannot be used as the type of a kernel parameter",
        ),
        (
            "kernel void k(float *x) {}",
            "<text>:1:22: error: pointer arguments to kernel functions must reside in '__global', '__constant' or '__local' address space",
        ),
        ("kernel int k() { return 1; }", "<text>:1:12: error: kernel must have void return type"),
        ("#error no\nkernel void k() {}", "<text>:1:2: error: no"),
    ],
)
def test_errors_of_the_language(source: str, message: str) -> None:
    error = failure(source)
    assert str(error) == f"the OpenCL C source does not compile: {message}"
    assert error.log == message


def test_errors_are_those_of_the_language_version_that_fits_best() -> None:
    older = "int pipe(int n) { return n; }\nkernel void k(global int *x) {\n  x[0] = pipe(1);\n  x[1] = ;\n}\n"
    assert failure(older).log == "<text>:4:10: error: expected expression"
    newer = "kernel void k(global int *x) {\n  generic int *p = x;\n  global atomic_int *q;\n  p[0] = ;\n}\n"
    assert failure(newer).log == "<text>:4:10: error: expected expression"


@pytest.mark.parametrize(
    ("argument", "what"),
    [
        ("pipe int p", "a pipe"),
        ("queue_t p", "a queue"),
        ("clk_event_t p", "a value of the type 'clk_event_t'"),
    ],
)
def test_unsupported_arguments_are_refused(argument: str, what: str) -> None:
    error = failure(f"\nkernel void k(global int *x, {argument}) {{}}")
    assert (
        str(error)
        == f"<text>:2: the kernel 'k' takes {what} as its argument 'p', which devmod does not support"
    )
    assert (error.function, error.argument) == ("k", "p")


@pytest.mark.parametrize(
    "source",
    ["", "// nothing\n", "float f(float x) { return x; }\n", "kernel void k(global int *x);\n"],
)
def test_a_source_without_a_kernel(source: str) -> None:
    assert (
        str(failure(source))
        == "the OpenCL C source <text> has no kernel: mark a function with __kernel"
    )


def test_unsupported_features_are_refused() -> None:
    kernel = "kernel void k() {}"
    assert (
        refusal(devmod.CompileError, devmod.compile, kernel, "opencl -arch=gfx90a")
        == "the target 'opencl -arch=gfx90a' names an architecture, and opencl has none. Use the target 'opencl'"
    )
    assert (
        str(failure(kernel, name_expressions=["k<int>"]))
        == "name_expressions= is not supported for OpenCL C, which has no templates"
    )


# -- names that OpenCL C does not have


def test_calls_of_undeclared_functions_and_assembly_are_a_warning_at_the_callers_line(
    tmp_path: Path,
) -> None:
    source = (
        "#define LANE() __vendor_lane(0)\nkernel void k(global int *x) {\n  x[0] = intel_sub_group_shuffle(x[1], 3u) + amd_bitalign /* bits */ (1u, 2u);\n"
        '  x[1] = LANE();\n  int r;\n  asm volatile("mov.u32 %0, %laneid;" : "=r"(r));\n  __asm__("v_mov_b32 %0, 1" : "=v"(r));\n}\nasm("");\n'
    )
    with pytest.warns(UserWarning, match="some devices may refuse the OpenCL C source") as caught:
        module = devmod.compile(source, "opencl")
    (warning,) = caught
    assert str(warning.message) == (
        "some devices may refuse the OpenCL C source:\n"
        "<text>:3:10: warning: call of the undeclared function 'intel_sub_group_shuffle'\n"
        "<text>:3:46: warning: call of the undeclared function 'amd_bitalign'\n"
        "<text>:4:10: warning: call of the undeclared function '__vendor_lane'\n"
        "<text>:6:3: warning: inline assembly\n"
        "<text>:7:3: warning: inline assembly\n"
        "<text>:9:1: warning: inline assembly"
    )
    assert warning.filename == __file__
    assert list(module.functions["k"].arg_types) == ["handle"]
    # A define has the name of the function, as that of a device's block read.
    kernel = "kernel void k(global uint *x) {\n  x[0] = as_uint(READ(x));\n}\n"
    with pytest.warns(
        UserWarning,
        match="<text>:2:10: warning: call of the undeclared function 'intel_sub_group_block_read'",
    ):
        devmod.compile(kernel, "opencl", defines={"READ": "intel_sub_group_block_read"})
    (tmp_path / "lane.h").write_text("int lane(int n) { return arm_dot(n, n); }\n")
    (tmp_path / "k.cl").write_text(
        '#include "lane.h"\nkernel void k(global int *x) { x[0] = lane(1); }\n'
    )
    with pytest.warns(
        UserWarning, match="lane.h:1:26: warning: call of the undeclared function 'arm_dot'"
    ):
        devmod.compile(tmp_path / "k.cl", "opencl")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            "kernel void k(global int *x) { x[0] = y; }",
            "<text>:1:39: error: use of undeclared identifier 'y'",
        ),
        (
            "kernel void k(global int *x) { x[0] = amd_f(VENDOR); }",
            "<text>:1:45: error: use of undeclared identifier 'VENDOR'",
        ),
        (
            "kernel void k(global int *x) { x[0] = CLK_FOO; }",
            "<text>:1:39: error: use of undeclared identifier 'CLK_FOO'",
        ),
        (
            "#define N M\nkernel void k(global int *x) { x[0] = N; }",
            "<text>:2:39: error: use of undeclared identifier 'M'",
        ),
        (
            "#define f M\n#define N M\nkernel void k(global int *x) { x[0] = f; }",
            "<text>:3:39: error: use of undeclared identifier 'M'",
        ),
        (
            "kernel void k(global int *x) { vendor_t y; }",
            "<text>:1:32: error: use of undeclared identifier 'vendor_t'",
        ),
        (
            "kernel void k(global vendor_t *x) {}",
            "<text>:1:22: error: unknown type name 'vendor_t'",
        ),
        (
            "kernel void k(global int *x, vendor_t v) {}",
            "<text>:1:30: error: unknown type name 'vendor_t'",
        ),
        (
            "struct S { int a[size(3)]; };\nkernel void k(struct S s) {}",
            "<text>:1:18: error: use of undeclared identifier 'size'",
        ),
        (
            "kernel void k(global int *x) { __vendor_unroll for (;;) x[0] = 1; }",
            "<text>:1:32: error: use of undeclared identifier '__vendor_unroll'",
        ),
    ],
)
def test_undeclared_variables_and_types_are_errors(source: str, why: str) -> None:
    assert str(failure(source)).startswith(f"the OpenCL C source does not compile: {why}")


@pytest.mark.parametrize(
    "name",
    ["width", "get_globl_id", "vendor_lane", "intel", "amd", "bitfields", "dots", "sub_groups"],
)
def test_the_call_of_an_undeclared_function_is_an_error(name: str) -> None:
    source = f"kernel void k(global int *x) {{\n  x[0] = {name}(1);\n}}\n"
    assert (
        str(failure(source))
        == f"the OpenCL C source does not compile: <text>:2:10: error: use of undeclared identifier '{name}'"
    )


@pytest.mark.parametrize(
    "name",
    [
        "amd_bitalign",
        "arm_dot_acc",
        "intel_convert_as_bfloat16_float",
        "qcom_box_filter_imagef",
        "img_dot_acc",
        "read_channel_nb_intel",
        "read_channel_altera",
        "__builtin_IB_lsc_load",
        "sub_group_rotate",
        "get_sub_group_eq_mask",
        "work_group_reduce_mul",
        "clock_read_device",
        "async_work_group_copy_2D2D",
        "dot_4x8packed_uu_uint",
        "dot_acc_sat_4x8packed_ss_int",
        "bit_reverse",
        "bitfield_insert",
    ],
)
def test_functions_of_extensions_may_be_undeclared(name: str) -> None:
    with pytest.warns(
        UserWarning, match=f"<text>:1:39: warning: call of the undeclared function '{name}'"
    ):
        devmod.compile(f"kernel void k(global int *x) {{ x[0] = {name}(1); }}", "opencl")


@pytest.mark.row("R30")
def test_what_no_receiver_accepts_is_an_error_of_the_build() -> None:
    kernel = "kernel void k(global int *x) { x[0] = 1; }"
    assert str(failure(kernel, options=["-save-temps=x"])) == (
        "the opencl option '-save-temps=x' is not supported: a receiver does not pass it to its driver. Expected an option of OpenCL such as "
        "-cl-std=CL2.0, -cl-mad-enable or -w"
    )
    with pytest.warns(UserWarning, match="inline assembly"):
        error = failure(kernel.replace("x[0] = 1;", 'asm(".incbin \\"x\\"");'))
    assert str(error) == (
        "an opencl source may not read a file of its receiver, and this one has inline assembly with '.incbin', where a directive that reads "
        "a file may begin. Use assembly without it"
    )
    module = devmod.compile(f"#ifdef __cplusplus\n#include <cmath>\n#endif\n{kernel}", "opencl")
    assert "#include <cmath>" in module.inspect_source()


# -- without libclang

WITHOUT = "import sys; sys.modules['clang'] = None\nimport devmod\n"
SOURCE = "kernel void k(global float *x, int n) {}"


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


MISSING = (
    'cannot read the kernels of the OpenCL C source: libclang is not installed. Either run pip install "devmod-core[build-opencl]", '
    "or declare the kernels: devmod.compile(..., fmap={name: devmod.FunctionInfo(name, arg_types)})"
)


@pytest.mark.row("R29")
def test_without_libclang_the_error_names_both_solutions() -> None:
    # One that says no arg_types leaves them to reflection.
    for more in ("", ", fmap={'k': devmod.FunctionInfo('k', [])}"):
        script = (
            WITHOUT
            + f"try: devmod.compile({SOURCE!r}, 'opencl'{more})\nexcept devmod.ToolchainNotFoundError as error: print(error)"
        )
        assert run(script) == MISSING


@pytest.mark.row("R29", "R42")
def test_without_libclang_a_declared_fmap_is_enough() -> None:
    script = WITHOUT + (
        f"module = devmod.compile({SOURCE!r}, 'opencl', fmap={{'k': devmod.FunctionInfo('k', ['handle', 'int32'])}}, defines={{'A': 1}})\n"
        "print(module.functions['k'].arg_types, len(module.functions['k'].launch_param_tags), module.functions['k'].interface)\n"
        "print(repr(module.inspect_source()), repr(module.origin.toolchain))"
    )
    assert (
        run(script)
        == f"('handle', 'int32') 6 None\n{'#define A 1' + chr(10) + '#line 1 ' + chr(34) + '<text>' + chr(34) + chr(10) + SOURCE!r} ''"
    )


def test_a_libclang_that_cannot_be_loaded_has_its_own_error(tmp_path: Path) -> None:
    script = (
        "from clang import cindex\nimport devmod\n"
        f"cindex.Config.set_library_file({str(tmp_path / 'libclang.so')!r})\n"
        f"try: devmod.compile({SOURCE!r}, 'opencl')\nexcept devmod.ToolchainNotFoundError as error: print(error)"
    )
    said = run(script)
    assert said.startswith(
        "cannot read the kernels of the OpenCL C source: libclang cannot be loaded ("
    )
    assert 'Either run pip install "devmod-core[build-opencl]", or declare the kernels' in said


# -- many at once


def test_threads_compile_side_by_side() -> None:
    def one(index: int) -> list[str]:
        source = f"kernel void k{index}(global float{2 << index % 3} *x) {{ x[0] = {index}; }}"
        (name, info), *_ = devmod.compile(source, "opencl").functions.items()
        return [name, *(row[2] for row in shape(info))]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(one, range(48)))
    assert results == [[f"k{index}", f"float32x{2 << index % 3}"] for index in range(48)]


@pytest.mark.row("R34")
def test_a_declared_length_is_the_minimum_size_of_the_argument() -> None:
    source = "#define N 4\nkernel void k(global uint hist[N * 4], global float3 v[2], global float *p, constant int t[3]) { hist[0] = t[0]; }"
    info = devmod.compile(source, "opencl").functions["k"]
    assert info.interface is not None
    assert [param.size for param in info.interface.params] == [64, 32, 0, 12]


# -- code after an unknown name


@pytest.mark.parametrize(
    ("body", "column"),
    [
        ("x[0] = arm_f(1) }", 51),
        ("x[0] = 2 * read_channel_intel(1) }", 68),
        ("x[0] = 2 * qcom_g(arm_f(1)) }", 63),
    ],
)
def test_a_syntax_error_after_an_undeclared_function_is_an_error(body: str, column: int) -> None:
    assert refusal(
        devmod.CompileError, devmod.compile, f"__kernel void k(__global int *x) {{ {body}", "opencl"
    ).startswith(f"the OpenCL C source does not compile: <text>:1:{column}: error: expected")


@pytest.mark.parametrize(
    "body",
    [
        "x[0] = sub_group_shuffle(x[0], 1);",
        "__vendor_unroll(4) for (int i = 0; i < 4; i++) x[i] = 1;",
        "x[0] = read_channel_intel(x, 1).y;",
        'asm("nop");',
    ],
)
def test_possible_vendor_extensions_are_a_warning(body: str) -> None:
    source = f"__kernel void k(__global int *x) {{ {body} }}"
    with pytest.warns(UserWarning, match="some devices may refuse the OpenCL C source"):
        module = devmod.compile(source, "opencl")
    for option in ("--werror", "--strict"):
        error = raised(devmod.CompileError, devmod.compile, source, "opencl", options=option)
        assert str(error).startswith(
            f"{option} turns this warning into an error: some devices may refuse the OpenCL C source:\n<text>:1:"
        )
        assert error.log
    assert module.inspect_source("cl") == source


@pytest.mark.row("R38")
def test_werror_changes_nothing_that_is_written() -> None:
    source = "__kernel void k(__global int *x) { x[0] = 1; }"
    one, other = (
        devmod.compile(source, "opencl"),
        devmod.compile(source, "opencl", options=["--werror", "-cl-mad-enable"]),
    )
    assert other.origin is not None
    assert other.origin.options == ("-cl-mad-enable",)
    assert (
        one.save_to_bytes()
        == devmod.compile(source, "opencl", options=["--werror"]).save_to_bytes()
    )


def test_thousands_of_undeclared_functions_take_linear_work() -> None:
    def read(count: int) -> None:
        source = "".join(
            f"#define M{n} amd_f{n}(1)\n__kernel void k{n}(__global int *a) {{ a[0] = M{n} + amd_g{n}(2); }}\n"
            for n in range(count)
        )
        with pytest.warns(UserWarning, match="call of the undeclared function 'amd_f0'"):
            assert len(devmod.compile(source, "opencl").functions) == count

    read(500)
    assert_linear(lambda count: lambda: read(count), 100)


def test_a_kernel_with_the_name_of_a_built_in_function_is_a_warning() -> None:
    source = "kernel void twice(global float *x) { x[0] *= 2; }\nkernel void step(global float *x) { x[0] = 1; }\n"
    with pytest.warns(UserWarning, match="built-in function") as caught:
        module = devmod.compile(source, "opencl")
    assert [str(each.message) for each in caught] == [
        "<text>:2: warning: the kernel 'step' has the name of a built-in function of OpenCL C. Some drivers refuse such a kernel. Rename it"
    ]
    assert list(module) == ["twice", "step"]
    with pytest.raises(
        devmod.CompileError,
        match="--werror turns this warning into an error: <text>:2: warning: the kernel 'step' has the name",
    ):
        devmod.compile(source, "opencl", options=["--werror"])


# -- clang's warnings

#: What ggml's argsort.cl and rope.cl do, and what Intel's compiler refuses.
POINTERS = "kernel void k(global float *a, global int *b, ulong o) {\n  a = (global char *)((global char *)a + o); b[0] = a[0];\n}\n"
POINTERS_WARNING = "<text>:2:5: warning: incompatible pointer types assigning to '__global float *__private' from '__global char *'"


def test_clangs_warnings_have_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "swap.h").write_text(
        "inline void swap(global int *a, global uint *b) { a = b; a[0] = 1; }\n"
    )
    source = tmp_path / "k.cl"
    source.write_text(f'#include "swap.h"\n{POINTERS}')
    with pytest.warns(UserWarning, match="clang has warnings") as caught:
        devmod.compile(source, "opencl")
    assert str(caught[0].message) == (
        "clang has warnings about the OpenCL C source:\n"
        "swap.h:1:53: warning: assigning to '__global int *__private' from '__global uint *__private' (aka '__global unsigned int *__private') "
        "converts between pointers to integer types with different sign\n"
        + POINTERS_WARNING.replace("<text>:2", "k.cl:3")
    )


@pytest.mark.parametrize("option", ["--werror", "--strict"])
def test_clangs_warnings_are_errors_of_a_strict_build(option: str) -> None:
    assert (
        refusal(devmod.CompileError, devmod.compile, POINTERS, "opencl", options=option)
        == f"{option} turns this warning into an error: clang has warnings about the OpenCL C source:\n{POINTERS_WARNING}"
    )


def test_the_options_of_warnings_are_those_of_the_program() -> None:
    """A device's compiler gets the options too."""
    assert list(devmod.compile(POINTERS, "opencl", options="-w --strict").functions) == ["k"]
    assert (
        refusal(devmod.CompileError, devmod.compile, POINTERS, "opencl", options="-Werror")
        == f"the OpenCL C source does not compile: {POINTERS_WARNING.replace('warning', 'error')}"
    )


def test_what_sources_for_several_vendors_have_is_no_warning() -> None:
    source = (
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#pragma OPENCL EXTENSION cl_qcom_reqd_sub_group_size : enable\n"
        '__attribute__((qcom_reqd_sub_group_size("half")))\nkernel void k(global float *x) { x[get_global_id(0)] = 1; }\n'
    )
    assert devmod.compile(source, "opencl", options="--strict").functions["k"].interface is not None


def test_a_warning_does_not_change_what_libclang_reads() -> None:
    """An undeclared function may depend on the block; what clang warns about does not."""
    with pytest.warns(UserWarning, match="clang has warnings"):
        info = devmod.compile(
            "kernel void k(global float *x) { int n; x[get_global_id(0)] = 1; x + 1; }", "opencl"
        ).functions["k"]
    assert info.interface is not None
    assert info.interface.open_block


# -- what depends on a device's compiler

BRANCHES = """
#ifdef cl_intel_subgroups
kernel void of_intel(global float *x) { x[get_global_id(0)] *= 2; }
#endif
#if defined(__opencl_c_images) && !defined(cl_none)
__kernel
void with_images(global float *x) { x[get_global_id(0)] *= 2; }
#endif
#ifndef cl_khr_fp16
kernel void without_half(global float *x) { x[get_global_id(0)] *= 2; }
#else
kernel void with_half(global float *x) { x[get_global_id(0)] *= 2; }
#endif
kernel void always(global float *x) { x[get_global_id(0)] *= 2; }
"""


def in_branch(name: str, condition: str, macro: str) -> str:
    own = "and each device's compiler has its own macros"
    return f". {name!r} is in a branch of {condition!r}, {own}: defines={{{macro!r}: 1}} compiles the branch"


@pytest.mark.row("R25")
@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("of_intel", in_branch("of_intel", "#ifdef cl_intel_subgroups", "cl_intel_subgroups")),
        (
            "with_images",
            in_branch(
                "with_images",
                "#if defined(__opencl_c_images) && !defined(cl_none)",
                "__opencl_c_images",
            ),
        ),
        ("without_half", ". Did you mean 'with_half'?"),
        ("alway", ". Did you mean 'always'?"),
        ("get_global_id", ""),
    ],
)
def test_the_error_for_a_kernel_in_a_branch_names_the_macro(name: str, end: str) -> None:
    module = devmod.compile(BRANCHES, "opencl")
    assert list(module.functions) == ["with_half", "always"]
    for each in (module, devmod.loads(devmod.dumps(module))):
        error = raised(devmod.FunctionNotFoundError, each.get_function, name)
        text = error.args[0]
        assert (
            text
            == f"the opencl module has no function {name!r}; it has: 'with_half', 'always'{end}"
        )
    assert (
        "of_intel"
        in devmod.compile(BRANCHES, "opencl", defines={"cl_intel_subgroups": 1}).functions
    )


@pytest.mark.parametrize(
    "line",
    [
        "#define N 3",
        "constant int N = 3;",
        "typedef int N;",
        "constant float N[] = { 1 };",
        "  #  define N 3",
    ],
)
def test_the_error_for_an_undeclared_name_of_a_branch_names_the_macro(
    line: str, tmp_path: Path
) -> None:
    end = in_branch("N", "#ifdef cl_qcom_x", "cl_qcom_x")
    source = tmp_path / "k.cl"
    source.write_text(
        f"#ifdef cl_qcom_x\n{line}\n#endif\nkernel void k(global int *x) {{ x[0] = N + 1; }}\n"
    )
    text = refusal(devmod.CompileError, devmod.compile, source, "opencl")
    assert (
        text
        == f"the OpenCL C source does not compile: k.cl:4:39: error: use of undeclared identifier 'N'{end}"
    )
    assert built_failure(source, "opencl") == text.replace(
        "defines={'cl_qcom_x': 1}", "defines = { cl_qcom_x = 1 }"
    )


def test_a_name_that_no_macro_of_a_device_decides_has_no_hint() -> None:
    for head in (
        "#ifdef MINE\n#define N 3\n#endif\n",
        "#ifdef cl_x\n#else\n#undef cl_x\n#endif\n",
        "#ifdef cl_x\nvoid f() { int i = N + 1; }\n#endif\n",
    ):
        assert refusal(
            devmod.CompileError,
            devmod.compile,
            f"{head}kernel void k(global int *x) {{ x[0] = N; }}",
            "opencl",
        ).endswith("error: use of undeclared identifier 'N'")


@pytest.mark.parametrize(
    "name", ["float32", "half32", "uint32", "QCOM_REFERENCE_T", "qcom_image_t", "intel_sub_group_t"]
)
def test_the_error_for_a_type_of_a_vendor_has_a_note(name: str) -> None:
    for source in (
        f"kernel void k(global {name} *x) {{}}",
        f"kernel void k(global float *x) {{ {name} v; }}",
    ):
        assert (
            f"'{name}'. It may be of one vendor's devices, and devmod reads the types of OpenCL C alone: "
            in refusal(devmod.CompileError, devmod.compile, source, "opencl")
        )
    assert refusal(
        devmod.CompileError, devmod.compile, "kernel void k(global float5 *x) {}", "opencl"
    ).endswith("unknown type name 'float5'")
    size = "__attribute__((intel_reqd_sub_group_size(0)))"  # of a vendor, and known to clang
    assert refusal(
        devmod.CompileError, devmod.compile, f"{size} kernel void k(global float *x) {{}}", "opencl"
    ).endswith("attribute must be greater than 0")


def test_a_look_up_in_a_strangers_source_takes_linear_work() -> None:
    def look_up(count: int) -> None:
        source = (
            "#ifdef cl_x\n"
            + "#if cl_y\n" * count
            + "a"
            + " " * count
            + "*" * count
            + "\nname" * count
            + "f name" * count
        )
        module = devmod.create_with_fallback("opencl", source.encode(), "cl", {}, {})
        with pytest.raises(devmod.FunctionNotFoundError):
            module.get_function("name_")

    assert_linear(lambda count: lambda: look_up(count), 500)
