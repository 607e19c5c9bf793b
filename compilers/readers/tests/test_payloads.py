"""The check of a payload of each kind, without a device."""

from __future__ import annotations

from types import ModuleType

import pytest
from containers import CUBIN, FATBIN, HSACO, PLAIN, PTX
from each_case import refusal

from devmod import FunctionInfo
from devmod.errors import FormatError
from devmod_readers.payloads import cuda, hexagon, metal, opencl, rocm, vulkan


def functions(symbol: str) -> dict[str, FunctionInfo]:
    return {"f": FunctionInfo(symbol, ["handle"])}


def spirv(model: int) -> bytes:
    """Return a module with the entry point k."""
    words = [0x07230203, 0x00010300, 0, 100, 0, 4 << 16 | 15, model, 1, ord("k")]
    words += [5 << 16 | 54, 2, 1, 0, 3, 1 << 16 | 56]
    return b"".join(word.to_bytes(4, "little") for word in words)


#: A kind, a format, a payload with a kernel, and its symbol.
CHECKED: dict[str, tuple[ModuleType, str, bytes, str]] = {
    "CUDA C++": (cuda, "cuda", b"__global__ void k() {}", "k"),
    "PTX": (cuda, "ptx", PTX, "add"),
    "a cubin": (cuda, "cubin", CUBIN, "add"),
    "a fatbin": (cuda, "fatbin", FATBIN, "add"),
    "HIP": (rocm, "hip", b"__global__ void k() {}", "k"),
    "a code object": (rocm, "hsaco", HSACO, "add"),
    "a bundle": (rocm, "hsaco", PLAIN, "add"),
    "OpenCL C": (opencl, "cl", b"kernel void k() {}", "k"),
    "OpenCL's SPIR-V": (opencl, "il", spirv(6), "k"),
    "MSL": (metal, "metal", b"kernel void k() {}", "k"),
    "SPIR-V": (vulkan, "spv", bytes(12) + spirv(5), "k"),
}


@pytest.mark.parametrize("name", CHECKED)
def test_a_payload_has_its_kernels(name: str) -> None:
    kind, fmt, data, symbol = CHECKED[name]
    short = kind.__name__.rpartition(".")[2]
    assert kind.check(fmt, data, functions(symbol)) is True
    problem = refusal(FormatError, kind.check, fmt, data, functions("absent"))
    assert problem.startswith(
        (
            f"the {short} payload of format {fmt!r} has no kernel 'absent'",
            f"the {short} source of format {fmt!r} does not have the word 'absent'",
        )
    )
    assert problem.endswith("Compile it again")


@pytest.mark.parametrize(
    ("kind", "fmt", "data"),
    [(cuda, "optixir", b"x"), (opencl, "xclbin", b"x"), (opencl, "aocx", b"")],
)
def test_a_payload_that_only_a_driver_reads(kind: ModuleType, fmt: str, data: bytes) -> None:
    assert kind.check(fmt, data, functions("k")) is False


@pytest.mark.parametrize(
    ("kind", "fmt", "data"),
    [
        (opencl, "il", spirv(5)),
        (vulkan, "spv", bytes(12) + spirv(6)),
        (vulkan, "spv", bytes(12) + spirv(4)),
    ],
)
def test_entry_points_of_another_model_are_no_kernels(
    kind: ModuleType, fmt: str, data: bytes
) -> None:
    assert "has no kernel 'k'" in refusal(FormatError, kind.check, fmt, data, functions("k"))


@pytest.mark.parametrize(
    ("kind", "fmt", "data", "problem"),
    [
        (opencl, "il", b"", "the SPIR-V of the opencl payload begins with 0x00000000"),
        (vulkan, "spv", bytes(12), "the SPIR-V of the vulkan shader begins with 0x00000000"),
        (hexagon, "so", b"x", "the hexagon payload of format 'so' is damaged: "),
        (metal, "metallib", b"MTLB", "the metallib is damaged: "),
        (metal, "metallib", b"kernel void k() {}", "it is no metallib: "),
    ],
)
def test_a_payload_that_is_damaged(kind: ModuleType, fmt: str, data: bytes, problem: str) -> None:
    assert refusal(Exception, kind.check, fmt, data, functions("k")).startswith(problem)
