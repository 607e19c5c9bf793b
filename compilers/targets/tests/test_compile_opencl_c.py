"""OpenCL C for CUDA: the code for each form of a target, the options, and the errors. The tests of
devmod-cuda run the kernels.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from opencl_calls import CALLS, kernel_of

import devmod
from devmod import Interface
from devmod_simulators.ptx import run_ptx

pytestmark = pytest.mark.row("R58")
ROOT = Path(__file__).resolve().parents[3]
CUDA = "cuda -arch=compute_80"
TWICE = "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }"


#: 48 KiB and one byte.
LOCALS = """
    local int a[12288];
    local char last;
    a[x[0]] = x[1];
    last = x[2];
    barrier(CLK_LOCAL_MEM_FENCE);
    x[3] = a[x[4]] + last;
}"""


def build(text: str, target: str = CUDA, **arguments: Any) -> devmod.Module:
    return devmod.compile(text, target, language="OpenCL C", **arguments)


def ptx_of(text: str, **arguments: Any) -> str:
    return str(build(text, **arguments).inspect_source("ptx"))


@pytest.mark.parametrize(
    ("target", "formats"),
    [
        (CUDA, ["ptx"]),
        ("cuda -arch=sm_80 -format=ptx", ["ptx"]),
        ("cuda -arch=sm_80", ["cubin"]),
        ("cuda -arch=sm_80,compute_90", ["cubin", "ptx"]),
        ("cuda -arch=sm_90,sm_80 -format=fatbin", ["fatbin"]),
    ],
)
def test_each_form_of_a_target(target: str, formats: list[str]) -> None:
    module = build(TWICE, target)
    modules = module.imports if module.kind == "bundle" else (module,)
    assert [each.format for each in modules] == formats
    assert ".visible .entry twice(" in modules[0].inspect_source("ptx")
    origin = modules[0].origin
    assert origin is not None
    assert target.startswith(origin.target.partition(",")[0][:12])
    assert re.match(r"ziglang [\d.]+, libclc [\d.]+, libclang [\d.]+", origin.toolchain)


@pytest.mark.parametrize("name", sorted(each.name for each in ROOT.glob("examples/opencl/*.cl")))
def test_the_signature_is_that_of_opencl(name: str) -> None:
    check_signature(name, CUDA)


def check_signature(name: str, target: str) -> None:
    """Compare an example for a target with the same one for opencl, and join them."""
    source = ROOT / "examples" / "opencl" / name
    own, other = (devmod.compile(source, each) for each in (target, "opencl"))
    assert [*own.functions] == [*other.functions]
    for function, info in other.functions.items():
        expected = info.interface
        interface = own.functions[function].interface
        assert isinstance(interface, Interface)
        assert isinstance(expected, Interface)
        assert interface.params == expected.params
        assert interface.block == expected.block
        assert interface.default_block == expected.default_block
    devmod.bundle(own, other)


def test_local_memory_is_an_offset_into_one_block() -> None:
    module = build(
        "typedef struct { double x; char c; } S;\n"
        "kernel void k(global float *x, local float4 *a, local S *b, float3 v) { a[get_local_id(0)] = x[0] + v.x; b->x = v.z; "
        "barrier(CLK_LOCAL_MEM_FENCE); x[0] = a[1].x + b->x; }"
    )
    info = module.functions["k"]
    assert info.arg_types == ("handle", "uint32", "uint32", "float32x3")
    assert "tirx.use_dyn_shared_memory" not in info.launch_param_tags
    ptx = module.inspect_source("ptx")
    for memory in ("k_$_a_$_local1", "k_$_b_$_local2"):
        assert f".extern .shared .align 128 .b8 {memory}[];" in ptx
    assert re.findall(r"\.param (\S+)", ptx[: ptx.index("{")]) == [".u64", ".u32", ".u32", ".align"]


def test_a_name_with_letters_that_are_not_of_ascii() -> None:
    text = "kernel void k(global float *größe, local int *löcal, float3 é) { löcal[0] = größe[0]; größe[1] = löcal[1] + é.y; }"
    info = build(text).functions["k"]
    assert info.arg_types == ("handle", "uint32", "float32x3")
    assert refusal(devmod.CompileError, build, text.replace("k(", "größer(")) == (
        "<text>:1: error: the kernel 'größer' has a name that PTX cannot have: use letters of ASCII"
    )


def test_cpp_for_opencl() -> None:
    text = (
        "template <class T> T twice(T x) { return x + x; }\nkernel void k(global float *x, local int *n) {\n"
        "n[0] = 1; barrier(CLK_LOCAL_MEM_FENCE); auto next = [](float a) { return a + 1; }; x[0] = twice(sin(x[0])) + next(n[0]);\n}"
    )
    module = build(text, options=["-cl-std=CLC++2021"])
    assert module.functions["k"].arg_types == ("handle", "uint32")


def test_the_block_of_the_source_is_that_of_the_kernel() -> None:
    text = f"__attribute__((reqd_work_group_size(8, 4, 1))) {TWICE}"
    assert ".reqntid 8, 4, 1" in ptx_of(text)
    interface = build(text).functions["twice"].interface
    assert interface is not None
    assert interface.block == (8, 4, 1)


@pytest.mark.parametrize("option", ["-lineinfo", "-g"])
def test_lines_have_the_name_of_the_file(option: str, tmp_path: Path) -> None:
    (tmp_path / "half.h").write_text("float half_of(float x)\n{\n  return x / 2;\n}\n")
    (tmp_path / "k.cl").write_text(
        '#include "half.h"\nkernel void k(global float *x)\n{\n  x[0] = half_of(x[1]);\n}\n'
    )
    ptx = devmod.compile(tmp_path / "k.cl", CUDA, options=[option]).inspect_source("ptx")
    files = dict(re.findall(r'\.file\s+(\d+) "([^"]*)"', ptx))
    lines = {(files[file], line) for file, line in re.findall(r"\.loc\s+(\d+) (\d+)", ptx)}
    assert {("half.h", "3"), ("k.cl", "4")} <= lines
    assert set(files.values()) <= {"half.h", "k.cl"}
    assert str(tmp_path) not in ptx


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_each_built_in_function_compiles(version: str) -> None:
    text = "".join(kernel_of(f"k_{name}", call) for name, call in CALLS.items())
    module = build(text, options=[f"-cl-std=CL{version}", "-w"])
    assert [*module.functions] == [f"k_{name}" for name in CALLS]


#: The names of libclc's and devmod's functions, of the driver's, and of PTX's registers.
NAMES = """
int devmod_linear(int x) { return x + 1; }
static float __clc_sin(float x) { return x + 2; }
int vprintf(int x) { return x + 3; }
float __attribute__((overloadable)) half_of(float x) { return x / 2; }
constant float devmod_values = 4;
kernel void tid(global float *x) {
    x[0] = devmod_linear((int)x[0]) + __clc_sin(x[1]) + vprintf((int)x[2]) + half_of(sin(x[3])) + devmod_values;
}
"""


def test_functions_of_the_source_may_have_the_names_of_others() -> None:
    assert ".visible .entry tid(" in ptx_of(NAMES)
    text = NAMES.replace("x[0] =", 'printf("%d", 1);\nx[0] =')
    assert refusal(devmod.CompileError, build, text) == (
        "<text>:4: error: the function 'vprintf' of the source has the name of the driver's, which printf calls. Rename it"
    )


def test_options() -> None:
    text = "kernel void k(global float *x) { x[0] = x[1] * x[2] + N; }"
    for options, expected in (
        (["-DN=0x1p3f"], "fma.rn.f32"),
        (["-D", "N=0x1p3f", "-ffp-contract=off"], "mul.rn.f32"),
        (["-DN=0x1p3f", "--cuda-feature=+ptx80"], ".version 8.0"),
        (["-DN=0x1p3f", "-cl-opt-disable"], ".local"),
        (["-DN=0x1p3f", "-cl-no-subgroup-ifp", "-UK"], "fma.rn.f32"),
    ):
        if options[0] == "-D":
            ptx = ptx_of(text, options=options[2:], defines={"N": "0x1p3f"})
        else:
            ptx = ptx_of(text, options=options)
        assert expected in ptx, options


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (
            "void f() {}",
            {},
            "the OpenCL C source <text> has no kernel: mark a function with __kernel",
        ),
        (
            "kernel void k(global int *x) {\n  x[0] = y;\n}",
            {},
            "the OpenCL C source does not compile: <text>:2:10: error: use of undeclared identifier 'y'",
        ),
        (
            "int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nkernel void k(global int *x) { x[0] = f(x[1]); }",
            {},
            "<text>:1: error: the function 'f' calls itself, and OpenCL C has no recursion: use a loop",
        ),
        (
            "int f(int);\nkernel void k(global int *x) {\n  x[0] = f(x[1]);\n}",
            {},
            "the OpenCL C source does not compile: <text>:3:10: error: the program calls the function 'f', which it does not define",
        ),
        (
            "kernel void k(read_only image1d_buffer_t a, global float4 *x) { x[0] = read_imagef(a, 0); }",
            {},
            "<text>:1: error: the kernel 'k' takes 'a', an image of linear memory, of depths or of samples, which devmod does not have for "
            "cuda. Pass an array, or compile for opencl",
        ),
        (
            f"__attribute__((intel_reqd_sub_group_size(16))) {TWICE}",
            {},
            "<text>:1: error: the kernel 'twice' requires sub-groups of 16, and those of cuda have 32",
        ),
        (
            f"__attribute__((reqd_work_group_size(64, 32, 1)))\n{TWICE}",
            {},
            "<text>:2: error: the kernel 'twice' requires a block of 2048 threads, and cuda has at most 1024. Change reqd_work_group_size",
        ),
        (
            f"{TWICE}\nkernel void k(global int *x) {{{LOCALS}",
            {},
            "<text>:2: error: the kernel 'k' has 49153 bytes of local memory, and cuda has at most 49152 for its variables. Take it as a "
            "local argument, whose size the launch defines",
        ),
        (
            TWICE,
            {"options": ["-cl-nv-maxrregcount=32"]},
            "the cuda option '-cl-nv-maxrregcount=32' is not supported for OpenCL C: expected an option of OpenCL such as ",
        ),
        (
            TWICE,
            {"options": ["--fmad=false"]},
            "the cuda option '--fmad=false' is not supported for OpenCL C: expected an option of OpenCL such as -cl-std=CL2.0 or "
            "-cl-mad-enable, -O0 to -O3, -lineinfo, or --cuda-feature=+ptx80 (the version of PTX)",
        ),
        (
            TWICE,
            {"name_expressions": ["twice"]},
            "name_expressions= is not supported for OpenCL C, which has no templates",
        ),
        (
            TWICE,
            {"target": "cuda -format=cuda"},
            "OpenCL C compiles to PTX, and the target 'cuda -format=cuda' requests CUDA C++: leave out -format=cuda",
        ),
        (
            TWICE,
            {"target": "cuda"},
            "the target 'cuda' names no architecture. Name those of the devices: 'cuda -arch=sm_80,sm_90,compute_90'",
        ),
        (
            TWICE,
            {"target": "cuda -arch=compute_1"},
            "ziglang 0.17.1 does not support the architecture 'compute_1'; it supports sm_20",
        ),
    ],
)
def test_errors(text: str, arguments: dict[str, Any], message: str) -> None:
    assert refusal(devmod.CompileError, build, text, **arguments).startswith(message)


PACKED = """constant float A[2] = {1, 2};
typedef struct __attribute__((packed)) { char c; constant float *p; } Pair;
constant Pair pairs[2] = {{1, A}, {3, A + 1}};
kernel void k(global float *x) {
    constant Pair *pair = pairs + get_global_id(0);
    x[get_global_id(0)] = pair->p[0] + pair->c;
}"""


def test_packed_constants_with_pointers() -> None:
    """They need a version of PTX that LLVM does not choose for the architecture."""
    assert refusal(devmod.CompileError, build, PACKED) == (
        "<text>:3: error: the constant 'pairs' has packed structs with pointers, which need PTX 7.1 (CUDA 11.1): add the option "
        "--cuda-feature=+ptx71"
    )
    ptx = ptx_of(PACKED, options=["--cuda-feature=+ptx71"])
    x = np.zeros(2, np.float32)
    run_ptx(ptx, "k", 1, 2, [x])
    assert x.tolist() == [2, 5]


def test_local_memory_up_to_the_limit() -> None:
    """Each kernel has its own."""
    text = LOCALS.replace("local char last", "int last")
    build("".join(f"kernel void {name}(global int *x) {{{text}\n" for name in ("k", "other")))


def test_a_warning_of_clang_has_its_line() -> None:
    text = "kernel void k(global int *x) {\n  int unused;\n  if (x[0] = 1) x[1] = 2;\n}"
    with pytest.warns(
        UserWarning, match="<text>:3:12: warning: using the result of an assign"
    ) as caught:
        build(text)
    assert [each.filename for each in caught] == [__file__]


def test_a_pointer_of_another_type_is_a_warning() -> None:
    """As it is of OpenCL's drivers. A function of another type is an error."""
    text = "kernel void k(global uint2 *x) {\n  global uint *y = x;\n  y[get_global_id(0)] = 7;\n}"
    with pytest.warns(UserWarning, match="<text>:2:16: warning: incompatible pointer types"):
        module = build(text)
    x = np.zeros(64, np.uint32)
    run_ptx(str(module.inspect_source("ptx")), "k", 1, 64, [x])
    assert x.tolist() == [7] * 64
    text = "kernel void k(global long *x) { atomic_add(x, 1); }"
    assert refusal(devmod.CompileError, build, text).startswith(
        "the OpenCL C source does not compile: <text>:1:44: error: incompatible pointer types"
    )


READER = """
float read(read_only image2d_t image) { return read_imagef(image, CLK_FILTER_NEAREST, (int2)(0)).x; }
float read_twice(read_only image2d_t image) { return read(image) + read(image) + missing(1); }
"""
SAMPLER = "kernel void k(global float *x) { const sampler_t own = CLK_FILTER_LINEAR; x[0] = 3; }"


@pytest.mark.parametrize("target", [CUDA, "rocm -arch=gfx1100"])
def test_what_no_kernel_uses_needs_no_functions(target: str) -> None:
    """Rodinia's particlefilter has a function that reads an image, for another of its kernels."""
    for options in ("", "-cl-opt-disable"):
        assert build(SAMPLER, target, options=options).functions.keys() == {"k"}
        text = f"float missing(int);{READER}{SAMPLER}"
        assert build(text, target, options=options).functions.keys() == {"k"}
    text = f"float missing(int);{READER}{SAMPLER.replace('= 3', '= missing(2)')}"
    assert refusal(devmod.CompileError, build, text, target) == (
        "the OpenCL C source does not compile: <text>:4:82: error: the program calls the function 'missing', which it does not define"
    )


def test_what_sources_for_several_vendors_have_causes_no_warning() -> None:
    build(
        "#pragma OPENCL EXTENSION cl_amd_printf : enable\n"
        f'__attribute__((qcom_reqd_sub_group_size("half"))) {TWICE}'
    )


def test_without_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "ziglang" else real(name, *rest),
    )
    text = refusal(devmod.ToolchainNotFoundError, build, TWICE)
    assert 'pip install "devmod-core[build-cuda-opencl]"' in text


def test_an_older_clang_than_that_of_libclc(monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_targets.opencl_c import processor

    monkeypatch.setattr(processor, "toolchain", lambda: "ziglang 0.16.0")
    assert refusal(devmod.ToolchainNotFoundError, build, TWICE) == (
        "cuda cannot compile OpenCL C here: expected ziglang 0.17 or newer, whose clang reads the bitcode of libclc 22.1.8, got ziglang "
        '0.16.0. To update it: pip install --upgrade "devmod-core[build-cuda-opencl]"'
    )
