"""OpenCL C for cuda, rocm and SPIR-V: the payloads, the documented functions, and the errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from backend_checks import code_of
from opencl_calls import CALLS, IMAGE_CALLS, kernel_of

import devmod
from devmod_targets.opencl.device._definitions import GROUPS

ROOT = Path(__file__).resolve().parents[2]
AXPY = (
    "kernel void axpy(global float *y, global const float *x, float a, int n) { int i = get_global_id(0); if (i < n) y[i] += a * x[i]; }\n"
)
CUDA, ROCM, IL = "cuda -arch=compute_80", "rocm -arch=gfx1100", "opencl -format=il"


def build(source: str, target: str, **arguments: object) -> devmod.Module:
    return devmod.compile(source, target, language="OpenCL C", **arguments)  # type: ignore[arg-type]


@pytest.mark.row("R14", "R16")
def test_the_payloads_of_one_source() -> None:
    modules = [build(AXPY, target) for target in (CUDA, "cuda -arch=sm_80", ROCM, IL)]
    assert [(each.kind, each.format) for each in modules] == [("cuda", "ptx"), ("cuda", "cubin"), ("rocm", "hsaco"), ("opencl", "il")]
    assert {each.functions["axpy"].arg_types for each in modules} == {("handle", "handle", "float32", "int32")}
    for each in modules:
        interface = each.functions["axpy"].interface
        assert interface is not None
        assert [(param.name, param.kind, param.type, param.access) for param in interface.params] == [
            ("y", "buffer", "float32", "rw"),
            ("x", "buffer", "float32", "r"),
            ("a", "scalar", "float32", ""),
            ("n", "scalar", "int32", ""),
        ]
        assert interface.open_block
    assert ".entry axpy(" in modules[0].inspect_source("ptx")
    assert code_of(modules[3])[:4] == b"\x03\x02\x23\x07"
    devmod.bundle(*modules)


def test_the_same_bytes_again() -> None:
    for target in (CUDA, ROCM, IL):
        assert code_of(build(AXPY, target)) == code_of(build(AXPY, target))


@pytest.mark.parametrize("target", [CUDA, ROCM])
def test_levels_of_optimization(target: str) -> None:
    none, most, default, disabled = (
        code_of(build(AXPY, target, options=options)) for options in (["-O0"], ["-O3"], [], ["-cl-opt-disable"])
    )
    assert len(none) > len(most)
    assert (default, disabled) == (most, none)


def test_local_memory_is_an_offset() -> None:
    source = "kernel void k(global float *x, local float *tile) { tile[get_local_id(0)] = x[0]; x[1] = tile[3]; }"
    for target in (CUDA, ROCM):
        info = build(source, target).functions["k"]
        assert info.arg_types == ("handle", "uint32")
        assert info.interface is not None
        assert (info.interface.params[1].kind, info.interface.params[1].type) == ("local", "float32")
    assert ".extern .shared .align 16 .b8 devmod_local_memory[];" in build(source, CUDA).inspect_source("ptx")


def test_the_table_has_the_functions() -> None:
    page = (ROOT / "docs" / "opencl-functions.md").read_text()
    rows = dict(re.findall(r"^\| ([\w -.,]+?) \| (`.*`) \|$", page, re.MULTILINE))
    assert {name: re.findall(r"`(\w+)`", row) for name, row in rows.items()} == GROUPS
    assert {*CALLS, *IMAGE_CALLS} == {name for names in GROUPS.values() for name in names}


#: The functions of ROCm's device library.
LIBRARY = {"lgamma", "lgamma_r", "tgamma", "printf"}


@pytest.mark.once  # libdevice is in one environment alone
@pytest.mark.parametrize("target", [CUDA, ROCM, IL])
def test_each_function_of_the_table_compiles(target: str) -> None:
    # LLVM does not compile a source with printf and the copies of a work-group to SPIR-V.
    without = LIBRARY if target == ROCM else {"printf"} if target == IL else ()
    images = IMAGE_CALLS if target == CUDA else {}
    calls = {name: call for name, call in (CALLS | images).items() if name not in without}
    source = "".join(kernel_of(f"call_{name}", call) for name, call in calls.items())
    assert len(build(source, target, options=["-cl-std=CL2.0", "-w"]).functions) == len(calls)


@pytest.mark.volume  # the parts of devmod's headers that a function alone needs
@pytest.mark.once
@pytest.mark.parametrize("target", [CUDA, ROCM])
@pytest.mark.parametrize("group", GROUPS)
def test_each_function_compiles_alone(group: str, target: str) -> None:
    for name in GROUPS[group]:
        if target != ROCM or name not in LIBRARY | IMAGE_CALLS.keys():
            assert build(kernel_of("k", (CALLS | IMAGE_CALLS)[name]), target, options=["-cl-std=CL2.0", "-w"]).functions.keys() == {"k"}


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            "kernel void k(global float *x) {\n  x[0] = lgamma(x[1]);\n}",
            ROCM,
            "<text>:2: error: the program calls the built-in function 'lgamma', which amdgcn does not compute by itself for these types: name "
            "the folder of ROCm's device library",
        ),
        (
            "kernel void k(global half *x) {\n\n  x[0] = nextafter(x[0], x[1]);\n}",
            CUDA,
            "the OpenCL C source does not compile: <text>:3: error: the program calls the built-in function 'nextafter', which devmod does "
            "not have for cuda",
        ),
        (
            "float helper(float x);\nkernel void k(global float *x) { x[0] = helper(x[0]); }",
            ROCM,
            "the OpenCL C source does not compile: <text>:1: error: the program calls the function 'helper', which it does not define",
        ),
        (
            "float helper(float x);\nkernel void k(global float *x) { x[0] = helper(x[0]); }",
            IL,
            "<text>:1: error: the program calls the function 'helper', which it does not define",
        ),
        (
            "kernel void k(read_only image2d_t image, global float4 *x, sampler_t s) { x[0] = read_imagef(image, s, (float2)(0)); }",
            ROCM,
            "<text>:1: the kernel 'k' takes 'image', an image, which devmod does not have in OpenCL C for rocm: pass an array and compute the "
            "filter in the kernel, or compile for opencl",
        ),
        (
            "kernel void k(read_only image1d_buffer_t image, global float4 *x) { x[0] = read_imagef(image, 0); }",
            CUDA,
            "<text>:1: the kernel 'k' takes 'image', an image of linear memory, of depths or of samples, which devmod does not have in OpenCL "
            "C for cuda: pass an array",
        ),
        (
            "kernel void k(global int *x) {\n  x[0] = y;\n}",
            ROCM,
            "the OpenCL C source does not compile: <text>:2:10: error: use of undeclared",
        ),
        *(
            (
                "int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nkernel void k(global int *x) { x[0] = f(x[1]); }",
                target,
                "<text>:1: error: the function 'f' calls itself, and OpenCL C has no recursion: use a loop",
            )
            for target in (CUDA, ROCM, IL)
        ),
        (
            "int __attribute__((overloadable)) f(int n);\nint g(int n) { return f(n); }\n"
            "int __attribute__((overloadable)) f(int n) { return n ? g(n - 1) : 0; }\nkernel void k(global int *x) { x[0] = f(x[1]); }",
            CUDA,
            "<text>:2: error: the function 'g' calls itself through 'f', and OpenCL C has no recursion: use a loop",
        ),
        (
            'kernel void vprintf(global int *x) {\n  printf("%d", x[0]);\n}',
            CUDA,
            "<text>:1: error: the kernel 'vprintf' has the name of CUDA's function that printf uses: rename it",
        ),
        ("void f() {}", CUDA, "the OpenCL C source <text> has no kernel: mark a function with __kernel"),
        (AXPY, "cuda -arch=sm_80,sm_90 -format=fatbin", "OpenCL C compiles for one architecture at a time"),
        (
            AXPY,
            "cuda -format=cuda",
            "<text> is OpenCL C, which clang compiles here for cuda; the target 'cuda -format=cuda' has the option",
        ),
        (AXPY, "rocm -format=hip", "<text> is OpenCL C, which clang compiles here for rocm; the target 'rocm -format=hip' has the option"),
        (AXPY, "opencl -format=spv", "the target 'opencl -format=spv' has the option -format=spv; expected -format=cl or -format=il"),
        (AXPY, "cuda", "the target 'cuda' names no architecture. Name those of the devices: 'cuda -arch=sm_80,sm_90,compute_90'"),
        (AXPY, "vulkan", "vulkan has no language 'OpenCL C'"),
    ],
)
def test_errors(source: str, target: str, message: str) -> None:
    with pytest.raises(devmod.CompileError) as caught:
        build(source, target)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("target", "extra"), [(CUDA, "build-cuda-opencl"), (ROCM, "build-rocm"), (IL, "build-opencl-il")])
def test_without_clang(target: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ziglang" else real(name, *rest))
    with pytest.raises(devmod.ToolchainNotFoundError, match=re.escape(f'pip install "devmod-core[{extra}]"')):
        build(AXPY, target)


def test_without_libdevice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmod_targets.cuda.libdevice.folder_of", lambda program: "")
    assert build(AXPY, CUDA).format == "ptx"
    with pytest.raises(devmod.ToolchainNotFoundError, match=r'pip install "devmod-core\[build-cuda-opencl\]"'):
        build("kernel void k(global float *x) { x[0] = sin(x[0]); }", CUDA)
