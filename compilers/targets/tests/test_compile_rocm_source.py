"""HIP that is kept as a source payload: complete in itself, checked by a compilation, with its
signatures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from backend_checks import check_error
from each_case import refusal

import devmod

pytestmark = pytest.mark.once  # what clang makes of a source

SOURCE = """#include <hip/hip_runtime.h>
#include "scale.h"
template<class T> __global__ void scale(T *x, T f) { x[threadIdx.x] *= f * TWO * N; }
extern "C" __global__ void k(int *x) { *x = 1; }
"""
PAYLOAD = """//devmod: -O1
#define N 3
#line 1 "<text>"
#include <hip/hip_runtime.h>
#line 1 "scale.h"
#define TWO 2
#line 3 "<text>"
template<class T> __global__ void scale(T *x, T f) { x[threadIdx.x] *= f * TWO * N; }
extern "C" __global__ void k(int *x) { *x = 1; }
template __global__ decltype(scale<float>) scale<float>;
"""


def compile_source(
    target: str, folder: Path, options: tuple[str, ...] = (), **more: Any
) -> devmod.Module:
    (folder / "scale.h").write_text("#define TWO 2\n")
    return devmod.compile(
        SOURCE,
        target,
        language="HIP",
        include=[folder],
        defines={"N": "3"},
        options=options,
        **more,
    )


@pytest.mark.row("R30", "R38", "R42")
def test_a_source_payload_is_complete_in_itself(tmp_path: Path) -> None:
    module = compile_source(
        "rocm -format=hip", tmp_path, ("-O1",), name_expressions=["scale<float>"]
    )
    assert (module.kind, module.format) == ("rocm", "hip")
    assert module.inspect_source() == PAYLOAD
    assert [f"{name} {info}" for name, info in module.functions.items()] == [
        "k <FunctionInfo k(x: int32* rw) any block>",
        "scale<float> <FunctionInfo _Z5scaleIfEvPT_S0_(x: float32* rw, f: float32)>",
    ]
    assert module.origin is not None
    assert (module.origin.target, module.origin.options) == ("rocm -format=hip", ("-O1", "-DN=3"))
    assert list(module.origin.sources) == ["<text>", "scale.h"]
    assert devmod.loads(devmod.dumps(module)).variant == ""


def test_the_key_of_an_instance_is_its_expression(tmp_path: Path) -> None:
    module = compile_source(
        "rocm -format=hip", tmp_path, name_expressions=["scale<unsigned>", "&scale<float>", "k"]
    )
    assert [(name, info.name) for name, info in module.functions.items()] == [
        ("scale<unsigned>", "_Z5scaleIjEvPT_S0_"),
        ("scale<float>", "_Z5scaleIfEvPT_S0_"),
        ("k", "k"),
    ]
    check_error(
        devmod.CompileError,
        lambda: compile_source(
            "rocm -format=hip", tmp_path, name_expressions=["(void (*)(int *, int))scale<int>"]
        ),
        "name_expressions= contains '(void (*)(int *, int))scale<int>', which a source for the receiver cannot request; expected an instance "
        "such as 'scale<float>', or a name",
    )


def test_a_plain_source_is_kept_byte_for_byte() -> None:
    text = 'extern "C" __global__ void k(int *x) { *x = 1; }'
    assert devmod.compile(text, "rocm -format=hip", language="HIP").inspect_source() == text


@pytest.mark.parametrize(
    ("target", "options", "text"),
    [
        (
            "rocm -arch=gfx90a -format=elf",
            (),
            "the target 'rocm -arch=gfx90a -format=elf' has the option -format=elf; expected -format=hsaco (the default) or -format=hip",
        ),
        (
            "rocm -arch=gfx90a,gfx1100 -format=hip",
            (),
            "the target 'rocm -arch=gfx90a,gfx1100 -format=hip' keeps the source, which is the same for all architectures; name at most one",
        ),
        (
            "rocm -format=hip",
            ("-fsanitize=address",),
            "the rocm option '-fsanitize=address' is not supported with -format=hip: a receiver does not pass it to hiprtc",
        ),
    ],
)
def test_targets_and_options_that_a_source_payload_cannot_have(
    target: str, options: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    check_error(devmod.CompileError, lambda: compile_source(target, tmp_path, options), text)


def test_hiprtc_compiles_hip_alone() -> None:
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(
            "define void @k() { ret void }", "rocm -format=hip", language="LLVM IR"
        ),
        "the target 'rocm -format=hip' keeps the source, and hiprtc compiles HIP alone; LLVM IR gives a code object: 'rocm -arch=gfx90a'",
    )


def test_errors_have_the_files_and_lines_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "scale.h").write_text("#define TWO wrong\n")
    source = SOURCE.replace("T f) {", "T f) { wrong();")
    assert refusal(
        devmod.CompileError,
        devmod.compile,
        source,
        "rocm -format=hip",
        language="HIP",
        include=[tmp_path],
        defines={"N": "3"},
        name_expressions=["scale<float>"],
    ).startswith("the HIP source does not compile: <text>:3:")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (
            'extern "C" __global__ void k(hipTextureObject_t t, float *x) { x[0] = tex2D<float>(t, 1, 2); }',
            "hipTextureObject_t",
        ),
        (
            'extern "C" __global__ void k(unsigned long long s, float *x) { surf2Dwrite(x[0], s, 4, 5); }',
            "surf2Dwrite",
        ),
        ("texture<float, 2> t; __global__ void k(float *x) { x[0] = 0; }", "texture"),
    ],
)
def test_textures_and_surfaces_are_refused_by_name(source: str, name: str) -> None:
    assert refusal(
        devmod.CompileError, devmod.compile, source, "rocm -arch=gfx1100", language="HIP"
    ).endswith(
        f". devmod has no textures and surfaces for rocm, and so no {name}: pass an array and compute the filter in the kernel"
    )
