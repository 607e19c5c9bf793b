"""Kernels of several tests, and the declarations of their functions. They need no toolchain."""

from __future__ import annotations

import devmod
from devmod import FunctionInfo, Interface, Param

ADD = """
#ifndef SCALE
#define SCALE 1
#endif
__kernel void add(__global const float *a, __global const float *b, __global float *c, int n)
{
    int i = get_global_id(0);
    if (i < n) c[i] = SCALE * (a[i] + b[i]);
}
__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }
"""


def add_info() -> FunctionInfo:
    """Return the FunctionInfo of `add`."""
    params = [
        Param(name, "buffer", "float32", access)
        for name, access in (("a", "r"), ("b", "r"), ("c", "w"))
    ]
    return FunctionInfo(
        "add",
        ["handle"] * 3 + ["int32"],
        ["blockIdx.x", "threadIdx.x"],
        (),
        Interface([*params, Param("n", "scalar", "int32")]),
    )


def twice_info() -> FunctionInfo:
    """Return the FunctionInfo of `twice`."""
    return FunctionInfo(
        "twice",
        ["handle"],
        ["blockIdx.x", "threadIdx.x"],
        (),
        Interface([Param("x", "buffer", "float32", "rw")]),
    )


def adder(source: str = ADD) -> devmod.Module:
    """Return a new module with `add` and `twice`."""
    return devmod.create(
        "opencl", source.encode(), "cl", {"add": add_info(), "twice": twice_info()}
    )


def kernel(
    source: str, name: str, params: list[Param], block: tuple[int, int, int] | None = None
) -> devmod.Function:
    """Return the only function of a new module."""
    types = ["handle" if param.kind in ("buffer", "local") else param.type for param in params]
    info = FunctionInfo(name, types, (), (), Interface(params, (), block))
    function: devmod.Function = devmod.create("opencl", source.encode(), "cl", {name: info})[name]
    return function
