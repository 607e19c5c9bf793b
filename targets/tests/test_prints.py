"""A source that prints where nothing prints has a warning, with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import devmod

GLSL = """#version 450
#extension GL_EXT_debug_printf : require
layout(local_size_x = 1) in;
layout(binding = 0) buffer Y { float y[]; };
void main() {
    /* debugPrintfEXT("a comment");
    */ debugPrintfEXT("y is %f", y[0]);
    y[0] = 3;
}
"""
SLANG = """[shader("compute")] [numthreads(1, 1, 1)] void k(RWStructuredBuffer<float> y) {
    printf("y is %f", y[0]);  // printf
    y[0] = 3;
}
"""
ENDING = " prints nothing without Vulkan's validation layers. Enable their printing (docs/debugging.md), or write the values to an array"


@pytest.mark.parametrize(
    ("language", "text", "line"), [("GLSL", GLSL, "7: warning: debugPrintfEXT"), ("Slang", SLANG, "2: warning: printf")]
)
def test_a_shader_that_prints_has_a_warning(language: str, text: str, line: str) -> None:
    with pytest.warns(UserWarning, match=re.escape(f"<text>:{line}{ENDING}")):
        devmod.compile(text, "vulkan", language=language)
    with pytest.raises(devmod.CompileError, match="--werror turns this warning into an error"):
        devmod.compile(text, "vulkan", language=language, options=["--werror"])


def test_a_shader_that_does_not_print_has_none() -> None:
    text = GLSL.replace('debugPrintfEXT("y is %f", y[0]);', "// debugPrintfEXT")
    assert "k" in devmod.compile(text, "vulkan", language="GLSL", name="k")


DEVICE_LIBS = Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")
OPENCL = """kernel void k(global float *y, global const float4 *v) {
    // printf
    printf("y is %f, %s: %v4hlf", y[0], "v", v[0]);
}
"""
PRINTS = pytest.mark.parametrize(("language", "text", "line"), [("Slang", SLANG, 2), ("OpenCL C", OPENCL, 3)])


@PRINTS
def test_a_print_without_the_device_library_has_a_warning(language: str, text: str, line: int) -> None:
    warning = f"<text>:{line}: warning: printf prints nothing in a kernel: it needs ROCm's device library (docs/rocm.md)"
    with pytest.warns(UserWarning, match=re.escape(warning)) as caught:
        devmod.compile(text, "rocm -arch=gfx1100", language=language)
    assert [each.filename for each in caught] == [__file__]
    with pytest.raises(devmod.CompileError, match="--werror turns this warning into an error"):
        devmod.compile(text, "rocm -arch=gfx1100", language=language, options=["--werror"])


@PRINTS
@pytest.mark.skipif(not (DEVICE_LIBS / "ockl.bc").exists(), reason="rocm-device-libs is not installed (make test-setup)")
def test_a_print_with_the_device_library(language: str, text: str, line: int) -> None:
    module = devmod.compile(text, "rocm -arch=gfx1100", language=language, options=[f"-device-libs={DEVICE_LIBS}"])
    assert ".value_kind:     hidden_hostcall_buffer" in str(module.source["asm"])


@PRINTS
def test_a_print_for_cuda_has_no_warning(language: str, text: str, line: int) -> None:
    assert "vprintf" in devmod.compile(text, "cuda -arch=compute_80", language=language).inspect_source("ptx")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("printf(f, 3)", "the format of printf is no literal"),
        ('printf("%d %d", 3)', "the conversion '%d' of printf has no value"),
        ('printf("%n", 3)', "the conversion '%n' of printf is unknown"),
        ('printf("%*d", 3, 4)', "the conversion '%*d' of printf is unknown"),
        ('printf("%2000000000s", "x")', "the conversion '%2000000000s' of printf has a width over 999"),
        pytest.param(f'printf("%.{"9" * 5000}f", y[0])', f"the conversion '%.{'9' * 5000}f' of printf has a width over 999", id="digits"),
        pytest.param(f'printf("%v{"9" * 5000}f", v[0])', f"the conversion '%v{'9' * 5000}f' of printf is unknown", id="lanes"),
        ('printf("%d", y[0])', "the conversion '%d' of printf has a value of the type double in LLVM IR"),
        ('printf("%v2hlf", v[0])', "the conversion '%v2hlf' of printf has a value of the type <4 x float> in LLVM IR"),
        ('printf("%s", f)', "the value of the conversion '%s' of printf is no literal"),
    ],
)
def test_errors_of_prints(call: str, problem: str) -> None:
    text = f"kernel void k(global float *y, global const float4 *v, constant char *f) {{\n  {call};\n}}"
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(text, "cuda -arch=compute_80", language="OpenCL C", options=["-w"])
    assert str(caught.value) == f"<text>:2: error: {problem}"
