"""Containers of device code as modules: a variant for each image, with the functions that it
has.
"""

from __future__ import annotations

from typing import Any

import pytest
from backend_checks import code_of
from containers import (
    AMD,
    BINARY,
    FATBIN,
    FOLDER,
    HSACO,
    NVIDIA,
    PLAIN,
    PTX,
    archive,
    frames,
    pack_binary,
)
from each_case import refusal
from recorded_triton import recorded_kernel
from zstandard_library import zstd

import devmod
from devmod import FunctionInfo
from devmod_targets.interop import offload
from devmod_targets.interop import triton as triton_interop

ADD = triton_interop.load(recorded_kernel("add")).functions


@pytest.mark.row("R40")
def test_each_image_is_a_variant() -> None:
    module = offload.load(FOLDER / "offloading.o", ADD)
    assert module.kind == "bundle"
    assert [(each.kind, each.format, each.code) for each in module.imports] == [
        (*each[:2], each[3]) for each in (AMD, *NVIDIA)
    ]
    variants = [each.variant for each in devmod.loads(devmod.dumps(module)).imports]
    assert variants == ["gfx1100", "sm_90a", "compute_90a:ptx9.4"]
    assert all(dict(each.functions) == ADD for each in module.imports)


def test_one_image_is_the_module_itself() -> None:
    module = offload.load(PLAIN, ADD)
    assert (module.kind, module.code, dict(module.functions)) == ("rocm", HSACO, ADD)


def test_a_variant_has_the_functions_that_its_image_contains() -> None:
    softmax = triton_interop.load(recorded_kernel("softmax"))
    other = pack_binary(softmax.code)
    module = offload.load(BINARY + other, {**ADD, **softmax.functions})
    assert [list(each.functions) for each in module.imports] == [
        ["add"],
        ["add"],
        ["add"],
        ["softmax"],
    ]
    assert offload.load(BINARY + other, softmax.functions).code == softmax.code


def test_an_image_that_devmod_does_not_run_is_ignored() -> None:
    bitcode = pack_binary(b"BC\xc0\xde")
    assert offload.load(bitcode + BINARY, ADD).kind == "bundle"
    assert refusal(devmod.FormatError, offload.load, bitcode, ADD) == (
        "the container cannot be loaded: no image has the functions 'add'; its images are: 'unknown nvptx64'"
    )


def test_a_function_that_no_image_has_is_an_error() -> None:
    assert refusal(
        devmod.FormatError, offload.load, FATBIN, {**ADD, "sub": FunctionInfo("sub", ("handle",))}
    ) == (
        "the container cannot be loaded: no image has the functions 'sub'; its images are: 'cubin sm_90a', 'ptx compute_90a:ptx9.4'"
    )
    assert refusal(devmod.FormatError, offload.load, PLAIN, {}) == (
        "the container cannot be loaded: fmap names no function; its images are: 'hsaco hipv4-amdgcn-amd-amdhsa--gfx1100'"
    )


def test_another_object_is_an_error() -> None:
    text = refusal(devmod.ArgumentError, offload.load, 7, ADD)
    assert text == "a container is bytes, another buffer or a path; got int"
    with pytest.raises(FileNotFoundError):
        offload.load("missing.fatbin", ADD)


def test_kernels_by_name() -> None:
    """The PTX has the types, and each image its own block: the code object requires none."""
    variants = offload.load(BINARY, iter(["add"]))
    assert [(each.kind, each.functions["add"].interface.block) for each in variants.imports] == [  # type: ignore[union-attr]
        ("rocm", None),
        ("cuda", (128, 1, 1)),
        ("cuda", (128, 1, 1)),
    ]
    assert {each.functions["add"].arg_types for each in variants.imports} == {
        (*ADD["add"].arg_types[:4], "handle", "handle")
    }
    assert (
        devmod.interop.offload.load(PTX, ("add",)).functions["add"].arg_types[:4]
        == ADD["add"].arg_types[:4]
    )
    text = "namespace ns { __global__ void scale(float *x, int n) { x[n] = 1; } } __global__ void other(float *x) { *x = 1; }"
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
    from devmod_targets.cuda.nvrtc import compile_program

    cubin = compile_program(text, "k.cu", ["-arch=sm_90"]).cubin
    for name in ("ns::scale", "_ZN2ns5scaleEPfi"):
        functions = offload.load(cubin, [name]).functions
        assert {key: (info.name, str(info.interface)) for key, info in functions.items()} == {
            name: ("_ZN2ns5scaleEPfi", "<Interface (float32* rw, int32)>")
        }


@pytest.mark.parametrize(
    ("data", "names", "error", "message"),
    [
        (
            FATBIN,
            ["sub"],
            devmod.FormatError,
            "the container cannot be loaded: no image has the kernel 'sub'; its kernels: 'add'",
        ),
        (
            FATBIN,
            [],
            devmod.FormatError,
            "the container cannot be loaded: fmap names no function; its images are: 'cubin sm_90a', 'ptx compute_90a:ptx9.4'",
        ),
        (
            FATBIN,
            "add",
            devmod.ArgumentError,
            "offload.load(data, fmap): fmap is a map of name to FunctionInfo, or names of kernels such as ['add'], not 'add'",
        ),
        (
            PLAIN,
            ["add"],
            devmod.FormatError,
            "the container does not contain the types of all arguments: the kernel 'add' takes (8 bytes, 8 bytes, 8 bytes, 4 bytes, 8 bytes, "
            "8 bytes). Declare the kernels that you call: fmap={'add': devmod.FunctionInfo('add', ('handle', 'handle', 'handle', 'int32', "
            "'handle', 'handle'))}. Some of these types are guesses by size: correct them first. 8 bytes are a pointer ('handle'), 'int64', "
            "'uint64' or 'float64', 4 bytes 'int32', 'uint32' or 'float32'",
        ),
        (
            b".version 8.0\n.target sm_80\n.visible .entry add(.param .u32 n) { ret; }\n",
            ["add", "sub"],
            devmod.FormatError,
            "the container cannot be loaded: no image has the kernel 'sub'; its kernels: 'add'",
        ),
    ],
)
def test_names_that_no_image_answers(
    data: bytes, names: Any, error: type[devmod.DevmodError], message: str
) -> None:
    assert refusal(error, offload.load, data, names) == message


@pytest.mark.row("R40")
def test_each_architecture_of_an_archive_is_a_variant() -> None:
    source = 'extern "C" __global__ void axpy(const float *x, float *y, float a) { y[threadIdx.x] += a * x[threadIdx.x]; }'
    built = devmod.compile(source, "rocm -arch=gfx90a,gfx1100", language="HIP")
    codes = [code_of(module) for module in built.imports]
    toc = {
        "lib/libk.so": {
            name: {"ordinal": n, "original_size": len(codes[n])}
            for n, name in enumerate(("gfx90a", "gfx1100"))
        }
    }
    data = archive(toc, frames(*map(zstd.compress, codes)))
    module = offload.load(data + bytes(9) + data[:64] + data[64:], built.imports[0].functions)
    assert [code_of(each) for each in module.imports] == [*codes, *codes]
    loaded = devmod.loads(devmod.dumps(offload.load(data, built.imports[0].functions)))
    assert [each.variant for each in loaded.imports] == ["gfx90a", "gfx1100"]
