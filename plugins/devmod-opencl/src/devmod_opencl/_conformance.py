"""Entry point ``devmod.conformance.opencl``: samples for `devmod conformance opencl` and for the
tests of this plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import devmod
from devmod import FunctionInfo, Interface, Local, Param
from devmod.backend import GRID_TAGS
from devmod_conformance import (
    Call,
    Conformance,
    Sample,
    axpy_call,
    count_call,
    linear_functions,
    spin_call,
    transpose_call,
)
from devmod_readers.c_numbers import C_NUMBERS

_LINEAR = """
__kernel void axpy(__global const float *x, __global float *y, float a, int n)
{
    int i = get_global_id(0);
    if (i < n) y[i] += a * x[i];
}

__kernel void count(__global const int *values, __global uint *counts, int n)
{
    int i = get_global_id(0);
    if (i < n) atomic_inc(&counts[values[i] & 7]);
}
"""
_TRANSPOSE = b"""//devmod: -DTILE=4
__kernel void transpose(__global const float *from, __global float *to, int width, int height)
{
    __local float tile[TILE][TILE];
    int x = get_local_id(0), y = get_local_id(1), left = get_group_id(0) * TILE, top = get_group_id(1) * TILE;
    if (left + x < width && top + y < height) tile[y][x] = from[(top + y) * width + left + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (top + x < height && left + y < width) to[(left + y) * height + top + x] = tile[x][y];
}
"""
#: A struct by value and local memory, as reflection describes them.
_SHIFT = """
typedef struct { int amount; int count; } How;
__kernel void shift(__global int *x, How how, __local int *scratch)
{
    int i = get_global_id(0), here = get_local_id(0);
    scratch[here] = i < how.count ? how.amount : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    x[i] += scratch[here];
}
"""
_SPIN = b"""
__kernel void spin(__global uint *x, int n)
{
    uint value = x[get_global_id(0)];
    for (int i = 0; i < n; i++) value = value * 1664525u + 1013904223u;
    x[get_global_id(0)] = value;
}
"""
#: Kernels that read an image with a sampler at given places, and kernels that write to one. None
#: reads an array of images: for normalized coordinates PoCL 3.0 reads a wrong layer.
_IMAGES = """
#define AT(number) places[width * get_global_id(0) + number]
__kernel void sample_1d(read_only image1d_t source, sampler_t source_sampler, __global const float *places, __global float4 *result)
{
    const int width = 1;
    result[get_global_id(0)] = read_imagef(source, source_sampler, AT(0));
}

__kernel void sample_2d(read_only image2d_t source, sampler_t source_sampler, __global const float *places, __global float4 *result)
{
    const int width = 2;
    result[get_global_id(0)] = read_imagef(source, source_sampler, (float2)(AT(0), AT(1)));
}

__kernel void sample_3d(read_only image3d_t source, sampler_t source_sampler, __global const float *places, __global float4 *result)
{
    const int width = 3;
    result[get_global_id(0)] = read_imagef(source, source_sampler, (float4)(AT(0), AT(1), AT(2), 0));
}

__kernel void write_floats(write_only image2d_t destination)
{
    int x = get_global_id(0), y = get_global_id(1);
    write_imagef(destination, (int2)(x, y), (float4)(x, y, x + y, 255) / 255);
}

__kernel void write_integers(write_only image2d_t destination)
{
    int x = get_global_id(0), y = get_global_id(1);
    write_imageui(destination, (int2)(x, y), (uint4)(x, y, x + y, 255));
}
"""
_SUBGROUP = """
__attribute__((intel_reqd_sub_group_size(SIZE))) __kernel void size(__global uint *result)
{
    result[get_global_id(0)] = get_sub_group_size();
}
"""
#: The contexts of new queues, which Intel's runtime forgets where only queues have them.
_contexts: list[Any] = []
_TAGS = ("blockIdx.x", "threadIdx.x")
_FLAT = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y")


def _image_functions() -> dict[str, FunctionInfo]:
    """Return the functions of `_IMAGES`."""
    sampler = Param("source_sampler", "sampler")
    places = Param("places", "buffer", "float32", "r")
    result = Param("result", "buffer", "float32x4", "w")
    signatures: dict[str, list[Param]] = {}
    for type_ in ("1d", "2d", "3d"):
        source = Param("source", "image", type_, "r", sample="float")
        signatures[f"sample_{type_}"] = [source, sampler, places, result]
    for name, sample in (("floats", "float"), ("integers", "uint")):
        destination = Param("destination", "image", "2d", "w", sample=sample)
        signatures[f"write_{name}"] = [destination]

    functions = {}
    for name, params in signatures.items():
        interface = Interface(params, open_block=True, needs=["images"])
        types = ["handle"] * len(params)
        functions[name] = FunctionInfo(name, types, GRID_TAGS, (), interface)
    return functions


def _shift(x: Any, parameters: tuple[int, int], _scratch: Local) -> None:
    x[: parameters[1]] += parameters[0]


class OpenCLConformance(Conformance):
    """OpenCL C with an interface, without one (as TVM declares functions), and compiled by
    devmod.
    """

    kind = "opencl"
    driver_modules = ("pyopencl",)
    several_devices: Mapping[str, str] = {"POCL_DEVICES": "pthread pthread"}
    samples = (
        Sample(
            _LINEAR.encode(),
            "cl",
            linear_functions(_TAGS),
            source={"cl": _LINEAR},
            calls=[
                axpy_call(),
                count_call(),
            ],
        ),
        Sample(
            _TRANSPOSE,
            "cl",
            {"transpose": FunctionInfo("transpose", ["handle", "handle", "int32", "int32"], _FLAT)},
            calls=[transpose_call()],
        ),
        Sample.compiled(
            "__kernel void scale(__global float *x) { x[get_global_id(0)] *= FACTOR; }",
            "opencl",
            defines={"FACTOR": "3"},
            calls=[
                Call(
                    "scale",
                    lambda rng: [rng.random(64, "float32")],
                    lambda x: x.__imul__(3),
                    grid=2,
                    block=32,
                )
            ],
        ),
        Sample.compiled(
            _SHIFT,
            "opencl",
            calls=[
                Call(
                    "shift",
                    lambda rng: [rng.integers(0, 99, 64, "int32"), (5, 40), Local(128)],
                    _shift,
                    grid=2,
                    block=32,
                )
            ],
        ),
    )
    images = (Sample(_IMAGES.encode(), "cl", _image_functions()),)
    subgroups = tuple(
        Sample.compiled(_SUBGROUP, "opencl", options=["-cl-std=CL3.0"], defines={"SIZE": str(size)})
        for size in (8, 16, 32)
    )
    scalars = (
        Sample(
            "\n".join(
                f"kernel void store_{each}(global {each} *result, {each} value) {{ result[0] = value; }}"
                for each in C_NUMBERS
            ).encode(),
            "cl",
            {
                f"store_{each}": FunctionInfo(f"store_{each}", ["handle", type_], _TAGS)
                for each, type_ in C_NUMBERS.items()
            },
        ),
    )
    slow = Sample(
        _SPIN,
        "cl",
        {"spin": FunctionInfo("spin", ["handle", "int32"], _TAGS)},
        calls=[spin_call(grid=64, block=16)],
    )
    bad_payloads = (
        Sample(
            b"__kernel void k(__global float *x) { x[0] = nonsense; }",
            "cl",
            {"k": FunctionInfo("k", ["handle"])},
        ),
        Sample(b"\x00\xff", "cl", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"\x03\x02\x23\x07 words of SPIR-V", "clbin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(b"no binary of any device", "clbin", {"k": FunctionInfo("k", ["handle"])}),
        Sample(
            b"__kernel void k(__global float *x) {}", "cl", {"k": FunctionInfo("other", ["handle"])}
        ),
    )

    def new_handle(self) -> object:
        import pyopencl as cl

        device: Any = devmod.device("opencl")
        context = cl.Context([device.handle])
        _contexts.append(context)
        return cl.CommandQueue(context)
