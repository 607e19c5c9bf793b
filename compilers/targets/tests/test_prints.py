"""A source that prints where nothing prints has a warning, with its line."""

from __future__ import annotations

import re

import pytest
from device_library import DEVICE_LIBS, needs_device_libs

import devmod

pytestmark = pytest.mark.once  # what compilers make of a source

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
ENDING = " prints nothing without Vulkan's validation layers. Enable their printing (docs/vulkan.md), or write the values to an array"


@pytest.mark.parametrize(
    ("language", "text", "line"),
    [("GLSL", GLSL, "7: warning: debugPrintfEXT"), ("Slang", SLANG, "2: warning: printf")],
)
def test_a_shader_that_prints_has_a_warning(language: str, text: str, line: str) -> None:
    with pytest.warns(UserWarning, match=re.escape(f"<text>:{line}{ENDING}")):
        devmod.compile(text, "vulkan", language=language)
    with pytest.raises(devmod.CompileError, match="--werror turns this warning into an error"):
        devmod.compile(text, "vulkan", language=language, options=["--werror"])


def test_a_shader_that_does_not_print_has_none() -> None:
    text = GLSL.replace('debugPrintfEXT("y is %f", y[0]);', "// debugPrintfEXT")
    assert "k" in devmod.compile(text, "vulkan", language="GLSL", name="k")


def test_a_print_without_the_device_library_has_a_warning() -> None:
    warning = "<text>:2: warning: printf prints nothing in a kernel: it needs ROCm's device library (docs/rocm.md)"
    with pytest.warns(UserWarning, match=re.escape(warning)) as caught:
        devmod.compile(SLANG, "rocm -arch=gfx1100", language="Slang")
    assert [each.filename for each in caught] == [__file__]
    with pytest.raises(devmod.CompileError, match="--werror turns this warning into an error"):
        devmod.compile(SLANG, "rocm -arch=gfx1100", language="Slang", options=["--werror"])


@needs_device_libs
def test_a_print_with_the_device_library() -> None:
    module = devmod.compile(
        SLANG, "rocm -arch=gfx1100", language="Slang", options=[f"-device-libs={DEVICE_LIBS}"]
    )
    assert ".value_kind:     hidden_hostcall_buffer" in str(module.source["asm"])


def test_a_print_for_cuda_has_no_warning() -> None:
    assert "vprintf" in devmod.compile(
        SLANG, "cuda -arch=compute_80", language="Slang"
    ).inspect_source("ptx")
