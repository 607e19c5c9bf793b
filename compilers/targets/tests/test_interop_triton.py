"""Kernels that Triton compiled: their signature, block, shared memory and hidden pointers; recorded
ones, and new ones with Triton.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from each_case import check_texts, refusal
from recorded_triton import recorded_kernel

import devmod
from devmod import Param
from devmod_targets.interop import triton as interop

HIDDEN = tuple(
    Param(name, "scalar", "uint64", default=0) for name in ("global_scratch", "profile_scratch")
)
LINE = (
    Param("x", "buffer", "float32"),
    Param("pair_0", "scalar", "float32"),
    Param("pair_1", "scalar", "int32"),
    Param("scale", "scalar", "float16"),
    Param("flag", "scalar", "bool"),
    Param("n", "scalar", "int32"),
)
SOFTMAX = (
    Param("out", "buffer", "float32"),
    Param("x", "buffer", "float32", "r"),
    Param("stride", "scalar", "int32"),
    Param("n", "scalar", "int32"),
)


def interface(module: devmod.Module, name: str) -> devmod.Interface:
    result = module.functions[name].interface
    assert result is not None
    return result


@pytest.mark.parametrize("fmt", ["cubin", "ptx"])
@pytest.mark.parametrize(
    ("name", "params", "block", "shared_memory", "tags"),
    [
        ("softmax", SOFTMAX + HIDDEN, 128, 16, ()),
        ("line", LINE + HIDDEN, 64, 0, ("tirx.use_programtic_dependent_launch",)),
    ],
)
def test_the_interface_of_a_kernel(
    name: str,
    params: tuple[Param, ...],
    block: int,
    shared_memory: int,
    tags: tuple[str, ...],
    fmt: str,
) -> None:
    kernel = recorded_kernel(name)
    module = interop.load(kernel, fmt)
    payload = kernel.asm[fmt] if fmt == "cubin" else kernel.asm[fmt].encode()
    assert (module.kind, module.format, list(module.functions), module.code) == (
        "cuda",
        fmt,
        [name],
        payload,
    )
    assert interface(module, name) == devmod.Interface(
        params, block=(block, 1, 1), shared_memory=shared_memory
    )
    info = module.functions[name]
    assert (info.name, info.launch_param_tags) == (name, tags)
    assert info.arg_types == tuple(
        "handle" if param.kind == "buffer" else param.type for param in params
    )


def test_the_binary_is_the_default() -> None:
    kernel = recorded_kernel("add")
    assert interop.load(kernel).format == "cubin"
    assert interop.load(recorded_kernel("add", "hip")).format == "hsaco"


def test_a_kernel_for_amd() -> None:
    module = interop.load(recorded_kernel("add", "hip"))
    buffers = tuple(Param(name, "buffer", "float32") for name in ("x", "y", "out"))
    assert (module.kind, devmod.loads(devmod.dumps(module)).variant) == ("rocm", "gfx1100")
    assert interface(module, "add").params == (*buffers, Param("n", "scalar", "int32"), *HIDDEN)


def test_scratch_memory_that_a_kernel_needs_is_an_argument() -> None:
    params = interface(interop.load(recorded_kernel("shift")), "shift").params
    assert params[2:] == (Param("global_scratch", "buffer", "uint8", "rw", size=128), HIDDEN[1])


def test_the_number_of_hidden_pointers_is_that_of_the_binary() -> None:
    kernel = recorded_kernel("add")
    kernel.asm["ptx"] = kernel.asm["ptx"].replace(
        ",\n\t.param .u64 .ptr .global .align 1 add_param_5", ""
    )
    assert interface(interop.load(kernel, "ptx"), "add").params[-1] == HIDDEN[0]
    del kernel.asm["ptx"]
    # The cubin has six parameters.
    assert interface(interop.load(kernel), "add").params[-2:] == HIDDEN


def test_the_texts_are_the_source() -> None:
    kernel = recorded_kernel("add")
    kernel.asm["llir"] = "define void @add"
    module = interop.load(kernel)
    assert (module.inspect_source("ptx"), module.inspect_source("ll")) == (
        kernel.asm["ptx"],
        "define void @add",
    )
    assert devmod.loads(devmod.dumps(module)).save_to_bytes() == module.save_to_bytes()


@pytest.mark.row("R42")
def test_the_origin() -> None:
    kernel = recorded_kernel("add")
    digest = sha256(kernel.src.fn.src.encode()).hexdigest()
    assert interop.load(kernel).origin == devmod.Origin(
        "cuda -arch=sm_90",
        "triton 3.9.0",
        ("num_warps=4", "num_ctas=1", "num_stages=3"),
        {"add": digest},
    )


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("*bf16", [Param("a", "buffer", "bfloat16")]),
        ("*fp8e4b15", [Param("a", "buffer")]),
        ("*fp8e5", [Param("a", "buffer", "float8_e5m2")]),
        ("**fp32", [Param("a", "buffer", "uint64")]),
        ("*kfp16", [Param("a", "buffer", "float16", "r")]),
        ("u1", [Param("a", "scalar", "bool")]),
        (
            ("i8", ("i64", "*i8")),
            [
                Param("a_0", "scalar", "int8"),
                Param("a_1_0", "scalar", "int64"),
                Param("a_1_1", "buffer", "int8"),
            ],
        ),
        ("nvTmaDesc", [Param("a", "scalar", "uint8x128", align=64)]),
        ("constexpr", []),
    ],
)
def test_types(kind: Any, params: list[Param]) -> None:
    kernel = recorded_kernel("add", "hip", signature={"a": kind}, constants={})
    assert interface(interop.load(kernel), "add").params == (*params, *HIDDEN)


def test_a_tensor_descriptor() -> None:
    kernel = recorded_kernel(
        "add", "hip", signature={"d": "tensordesc<fp32[16, 32]>"}, constants={}
    )
    params = interface(interop.load(kernel), "add").params
    names = "d d_base_shape_0 d_base_shape_1 d_base_stride_0 d_base_stride_1 d_pads_with_nan d_rounds_to_tf32 d_shape_0 d_shape_1 d_stride_0 d_stride_1"
    assert [param.name for param in params[:-2]] == names.split()
    assert [param.type for param in params[:-2]] == [
        "float32",
        *["int64"] * 4,
        "bool",
        "bool",
        "int32",
        "int32",
        "int64",
        "int64",
    ]
    kernel.metadata.tensordesc_meta = [{"swizzle": 3}]
    params = interface(interop.load(kernel), "add").params
    assert [param.name for param in params[:-2]] == [
        "d",
        "d_shape_0",
        "d_shape_1",
        "d_stride_0",
        "d_stride_1",
    ]
    assert params[0] == Param("d", "scalar", "uint8x128", align=64)


def test_constants_by_number_are_no_arguments() -> None:
    """Triton 3.2 has the constants of a signature in `constants` alone."""
    kernel = recorded_kernel(
        "add", "hip", signature={"x": "*fp32", "n": "i32", "one": "i32"}, constants={(2,): 1}
    )
    assert [param.name for param in interface(interop.load(kernel), "add").params[:-2]] == [
        "x",
        "n",
    ]


def without(key: str) -> Any:
    kernel = recorded_kernel("add")
    del kernel.asm[key]
    return kernel


def test_a_kernel_that_does_not_fit_is_an_error() -> None:
    check_texts(
        {
            "the binary of the Triton kernel 'add' does not fit its signature: it has 6 parameters; expected 1 arguments and at most 2 scratch pointers": (
                recorded_kernel("add", signature={"x": "*fp32"}),
                "",
            ),
            "the binary of the Triton kernel 'add' does not fit its signature: parameter 2 has 8 bytes, and 'y' has 4": (
                recorded_kernel(
                    "add", signature={"x": "*fp32", "y": "i32", "out": "*fp32", "n": "i32"}
                ),
                "",
            ),
            "the binary of the Triton kernel 'add' does not fit its metadata: it requires blocks of (128, 1, 1) threads, and the metadata has (256, 1, 1)": (
                recorded_kernel("add", metadata={"num_warps": 8}),
                "",
            ),
            "the Triton kernel 'add' has the argument 'x' of type '*i7', which is not supported": (
                recorded_kernel("add", signature={"x": "*i7"}),
                "",
            ),
            "the Triton kernel 'add' has the argument 'x' of type 'tensordesc<fp32>', which is not supported": (
                recorded_kernel("add", signature={"x": "tensordesc<fp32>"}),
                "",
            ),
            "the Triton kernel 'add' is for cuda: expected fmt='cubin' or 'ptx', got fmt='hsaco'": (
                recorded_kernel("add"),
                "hsaco",
            ),
            "the Triton kernel 'add' is for rocm: expected fmt='hsaco', got fmt='ptx'": (
                recorded_kernel("add", "hip"),
                "ptx",
            ),
            "the Triton kernel 'add' has no 'ptx'; it has: 'cubin'": (without("ptx"), "ptx"),
            "the Triton kernel 'add' is for the backend 'cpu'; devmod supports 'cuda', 'hip'": (
                recorded_kernel(
                    "add", metadata={"target": {"backend": "cpu", "arch": "x86", "warp_size": 1}}
                ),
                "",
            ),
        },
        lambda case: refusal(devmod.FormatError, interop.load, *case),
    )


@pytest.mark.parametrize("other", ["add.ptx", SimpleNamespace(asm={}), None])
def test_another_object_is_an_error(other: Any) -> None:
    assert refusal(devmod.ArgumentError, interop.load, other) == (
        "triton.load(kernel): expected a kernel that Triton compiled, such as triton.compile(…) or function.warmup(…), got "
        + type(other).__name__
    )


@pytest.mark.filterwarnings("ignore")  # Triton's own
@pytest.mark.parametrize("name", ["add", "softmax", "line", "shift"])
def test_the_installed_triton_makes_kernels_as_the_recorded_ones(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    triton = pytest.importorskip("triton", reason="needs triton, a wheel of 286 MB")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.syspath_prepend(str(Path(__file__).parent / "kernels/triton"))
    monkeypatch.delitem(sys.modules, "kernels", raising=False)
    from kernels import VECTORS

    function, signature, constants, options = VECTORS[name]
    source = ASTSource(function, signature=signature, constexprs=constants)
    for backend, arch, fmts in (("cuda", 90, ("cubin", "ptx")), ("hip", "gfx1100", ("hsaco",))):
        if backend == "hip" and name != "add":
            continue
        kernel = triton.compile(source, target=GPUTarget(backend, arch, 32), options=options)
        for fmt in fmts:
            expected = interop.load(recorded_kernel(name, backend), fmt)
            assert interop.load(kernel, fmt).functions == expected.functions
