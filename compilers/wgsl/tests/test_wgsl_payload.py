"""The check of a payload of WebGPU, without a device."""

from __future__ import annotations

from each_case import refusal

from devmod import FunctionInfo
from devmod.errors import CompileError, FormatError
from devmod_wgsl.payload import check

WGSL = b"@compute @workgroup_size(1) fn k() { }"


def functions(symbol: str) -> dict[str, FunctionInfo]:
    return {"f": FunctionInfo(symbol, ["handle"])}


def test_a_payload_has_its_kernels() -> None:
    assert check("wgsl", WGSL, functions("k")) is True
    assert refusal(FormatError, check, "wgsl", WGSL, functions("absent")) == (
        "the webgpu payload of format 'wgsl' has no kernel 'absent', which its fmap names; it has: 'k'. Compile it again"
    )


def test_a_payload_that_is_damaged() -> None:
    problem = refusal(CompileError, check, "wgsl", b"fn k(", functions("k"))
    assert problem.startswith("the WGSL source is refused at the webgpu shader:1:6: ")
