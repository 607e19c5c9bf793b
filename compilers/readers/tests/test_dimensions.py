"""The dimensions in which a kernel reads its place in the grid, from its source."""

from __future__ import annotations

import pytest
from each_case import refusal

from devmod import FunctionInfo
from devmod.errors import FormatError
from devmod_readers.payloads import check_source, cuda, metal, opencl, rocm, webgpu

CUDA = "__global__ void k(float *x) {{ {} }}"
CL = "kernel void k(global float *x) {{ {} }}"
MSL = "kernel void k(device float *x, uint3 at [[ {}_position_in_grid ]]) {{ {} }}"
WGSL = "@compute @workgroup_size(64) fn k(@builtin({}) at: vec3u) {{ {} }}"
PTX = ".visible .entry k(.param .u64 x) {{ mov.u32 %r1, {}; }}"
#: The kind, the format, a source of the kernel k, and its dimensions.
SOURCES: dict[str, tuple[object, str, str, int]] = {
    "none": (cuda, "cuda", CUDA.format("x[0] = 1;"), 1),
    "x": (cuda, "cuda", CUDA.format("x[blockIdx.x] = 1;"), 1),
    "y": (cuda, "cuda", CUDA.format("x[blockIdx.x + blockIdx.y] = 1;"), 2),
    "z": (cuda, "cuda", CUDA.format("x[blockIdx . z + blockIdx.y] = 1;"), 3),
    "a thread's": (cuda, "cuda", CUDA.format("x[threadIdx.z] = 1;"), 1),
    "the size": (cuda, "cuda", CUDA.format("x[blockIdx.y] = gridDim.y;"), 1),
    "a condition": (cuda, "cuda", CUDA.format("\n #  if A\nx[blockIdx.y] = 1;"), 1),
    "no condition": (cuda, "cuda", CUDA.format("x[blockIdx.y] = 1; // #if A"), 2),
    "a comment": (cuda, "cuda", CUDA.format("// blockIdx.y\n/* blockIdx.z\n */"), 1),
    "another kernel": (cuda, "cuda", CUDA.format("") + "__global__ void l() { blockIdx.y; }", 1),
    "a kernel before": (cuda, "cuda", "__global__ void l() { blockIdx.y; }" + CUDA.format(""), 1),
    "another name": (cuda, "cuda", "__global__ void kk(int n) { blockIdx.y; }", 1),
    "another format": (cuda, "cubin", CUDA.format("x[blockIdx.y] = 1;"), 1),
    "HIP": (rocm, "hip", CUDA.format("x[blockIdx.z] = 1;"), 3),
    "PTX": (cuda, "ptx", PTX.format("%ctaid.y"), 2),
    "PTX's size": (cuda, "ptx", PTX.format("%ctaid.y; mov.u32 %r2, %nctaid.x"), 1),
    "PTX's thread": (cuda, "ptx", PTX.format("%tid.y"), 1),
    "OpenCL": (opencl, "cl", CL.format("x[get_global_id(0)] = get_group_id( 1 );"), 2),
    "OpenCL's third": (opencl, "cl", CL.format("x[get_global_id (2)] = get_global_id(1);"), 3),
    "OpenCL's local": (opencl, "cl", CL.format("x[get_local_id(1)] = 0;"), 1),
    "OpenCL's size": (opencl, "cl", CL.format("x[get_global_id(1)] = get_num_groups(0);"), 1),
    "OpenCL's il": (opencl, "il", CL.format("x[get_global_id(1)] = 0;"), 1),
    "Metal": (metal, "metal", MSL.format("thread", "x[at.x + at.y] = 1;"), 2),
    "Metal's group": (metal, "metal", MSL.format("threadgroup", "x[at.yz.x] = 1;"), 3),
    "Metal's other": (metal, "metal", MSL.format("thread", "x[to.y] = 1;"), 1),
    "WGSL": (webgpu, "wgsl", WGSL.format("workgroup_id", "x[at.z] = 1;"), 3),
    "WGSL's thread": (webgpu, "wgsl", WGSL.format("global_invocation_id", "x[at.xy] = 1;"), 2),
    "WGSL's local": (webgpu, "wgsl", WGSL.format("local_invocation_id", "x[at.z] = 1;"), 1),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_dimensions_of_a_source(name: str) -> None:
    kind, fmt, source, expected = SOURCES[name]
    info = FunctionInfo("k", ["handle"])
    assert kind.dimensions(fmt, source.encode(), "k", info) == expected  # type: ignore[attr-defined]


def test_the_name_of_a_mangled_kernel() -> None:
    source = b"namespace a { __global__ void k(T *x) { x[blockIdx.y] = 1; } }"
    info = FunctionInfo("_ZN1a1kIfEEvPT_", ["handle"])
    for name, expected in (("a::k<float>", 2), ("b::a::k<f, g<h>>", 2), ("a::l<k>", 1)):
        assert cuda.dimensions("cuda", source, name, info) == expected


@pytest.mark.parametrize(
    ("source", "symbol", "is_refused"),
    [
        ("void scale2(int n)", "scale2", False),
        ("void scale2(int n)", "scale", True),
        ("void scale2(int n)", "_Z5scalei", False),
        ("NAME(sc ## ale)", "scale", False),
        ("_scale", "scale", True),
        ("größe", "größe", False),
    ],
)
def test_a_source_has_the_names_of_its_functions(
    source: str, symbol: str, is_refused: bool
) -> None:
    functions = {"f": FunctionInfo(symbol, ["handle"])}
    arguments = ("cuda", "cuda", source.encode(), functions)
    if not is_refused:
        assert check_source(*arguments)
        return
    assert refusal(FormatError, check_source, *arguments) == (
        f"the cuda source of format 'cuda' does not have the word {symbol!r}, and its fmap names "
        "such a kernel. Compile it again"
    )
