"""OpenCL C for ROCm: the code for each processor and size of a wave, the options, and the errors.
The tests of devmod-rocm run the kernels.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from each_case import refusal
from test_compile_opencl_c import check_signature

import devmod

pytestmark = pytest.mark.row("R58")
ROOT = Path(__file__).resolve().parents[3]
ROCM = "rocm -arch=gfx1100"
TWICE = "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }"
WIDE = "-mwavefrontsize64"


def build(text: str, target: str = ROCM, **arguments: Any) -> devmod.Module:
    return devmod.compile(text, target, language="OpenCL C", **arguments)


def asm_of(text: str, target: str = ROCM, **arguments: Any) -> str:
    return str(build(text, target, **arguments).inspect_source("asm"))


@pytest.mark.parametrize(
    ("target", "wave", "version"),
    [
        (ROCM, 32, 5),
        ("rocm -arch=gfx90a", 64, 5),
        ("rocm -arch=gfx942", 64, 5),
        ("rocm -arch=gfx11-generic", 32, 6),
    ],
)
def test_each_processor(target: str, wave: int, version: int) -> None:
    assembly = asm_of(TWICE, target)
    assert f".wavefront_size: {wave}" in assembly
    assert f".amdhsa_code_object_version {version}" in assembly
    # clang's limit for OpenCL C is 256.
    assert ".max_flat_workgroup_size: 1024" in assembly


@pytest.mark.parametrize("name", ["gaussian_blur", "mandelbrot", "matmul", "reduction", "softmax"])
def test_the_signature_is_that_of_opencl(name: str) -> None:
    check_signature(f"{name}.cl", ROCM)


def test_the_sizes_of_a_launch_are_hips_hidden_arguments() -> None:
    text = (
        "kernel void k(global ulong *x, local float *a) { x[get_global_id(0)] = get_local_size(0) + get_num_groups(1) + get_global_size(2);"
        " event_t e = async_work_group_copy(a, (global float *)x, 4, 0); wait_group_events(1, &e); }"
    )
    assembly = asm_of(text)
    assert ".amdhsa_user_sgpr_dispatch_ptr 0" in assembly
    assert ".value_kind:     hidden_group_size_x" in assembly


@pytest.mark.parametrize(("options", "wave"), [([], 32), ([WIDE], 64)])
def test_a_sub_group_is_a_wave(options: list[str], wave: int) -> None:
    assembly = asm_of(
        "kernel void k(global int *x) { x[0] = get_max_sub_group_size(); x[1] = sub_group_any(x[2]); }",
        options=options,
    )
    assert f".wavefront_size: {wave}" in assembly
    assert re.search(rf"v_(?:dual_)?mov_b32\w* v\d+, {'64' if wave == 64 else '32'}\b", assembly)
    source = "__attribute__((intel_reqd_sub_group_size({}))) kernel void k(global int *x) {{ x[0] = 1; }}"
    build(source.format(wave), options=options)
    other = 96 - wave
    message = refusal(devmod.CompileError, build, source.format(other), options=options)
    assert message.endswith(
        f"the kernel 'k' requires sub-groups of {other}, and those of gfx1100 have {wave} with these options. -mwavefrontsize64 and "
        "-mno-wavefrontsize64 choose the size where the processor has both"
    )


def test_a_print_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="printf prints nothing") as warned:
        build('/* printf(\n */ kernel void k(global int *x) { printf("%d", x[0]); }')
    assert str(warned[0].message) == (
        "<text>:2: warning: printf prints nothing in a kernel in OpenCL C for rocm. Compile it for opencl or cuda to see the output"
    )


@pytest.mark.parametrize(
    ("text", "target", "options", "message"),
    [
        (
            "kernel void k(read_only image2d_t a, global float *x) { x[0] = 1; }",
            ROCM,
            [],
            "<text>:1: error: the kernel 'k' takes 'a', and devmod has no images for rocm. Pass an array, or compile for opencl",
        ),
        (
            TWICE,
            f"{ROCM} -format=hip",
            [],
            f"OpenCL C compiles to a code object, and the target '{ROCM} -format=hip' requests HIP: leave out -format=hip",
        ),
        (
            TWICE,
            "rocm -arch=gfx",
            [],
            "the target 'rocm -arch=gfx' has the unknown architecture 'gfx'; expected a name such as gfx90a, gfx1100, gfx942:xnack- or "
            "gfx11-generic",
        ),
        (
            TWICE,
            ROCM,
            ["-ffast-math"],
            "the rocm option '-ffast-math' is not supported for OpenCL C: expected an option of OpenCL such as -cl-std=CL2.0 or "
            "-cl-mad-enable, -O0 to -O3, or -mwavefrontsize64 (waves of 64 threads)",
        ),
        (
            "kernel void k(global int *x) {\n  local int a[20000];\n  a[x[0]] = x[1];\n  barrier(1);\n  x[2] = a[x[3]];\n}",
            ROCM,
            [],
            "the OpenCL C source does not compile: <text>:1: error: local memory (80000) exceeds limit (65536) in the function 'k'",
        ),
        (
            "\nkernel void k(global int *x) {\n  int a[1000000];\n  for (int i = 0; i < x[0]; i++) a[i] = i;\n  x[1] = a[x[2]];\n}",
            ROCM,
            [],
            "the OpenCL C source does not compile: <text>:2: error: stack frame size (4000004) exceeds limit (262136) in the function 'k'",
        ),
        (
            'kernel void k(global int *x) {\n  __asm__("mov.u32 %0, 7;" : "=v"(x[0]));\n}',
            ROCM,
            [],
            "the OpenCL C source does not compile: <text>:2: error: invalid instruction in asm: mov.u32 v",
        ),
        (
            'void f(void) { __asm__("s_nop 0"); }\nkernel void k(global int *x) { __asm__("mov 1"); f(); }',
            ROCM,
            [],
            "the OpenCL C source does not compile: <text>: error: invalid instruction in asm: mov 1",
        ),
        (
            "int f(int x);\nkernel void k(global int *x) { x[0] = f(x[1]); }",
            ROCM,
            [],
            "the OpenCL C source does not compile: <text>:2:39: error: the program calls the function 'f', which it does not define",
        ),
    ],
)
def test_errors(text: str, target: str, options: list[str], message: str) -> None:
    assert refusal(devmod.CompileError, build, text, target, options=options).startswith(message)
