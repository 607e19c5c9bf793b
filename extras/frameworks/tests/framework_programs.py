"""The programs of the tests with frameworks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from backend_checks import first_device

import devmod
from devmod import FunctionInfo, Interface, Param

SOURCE = """
kernel void scale(global const float *x, global const float *w, global float *y, const int columns)
{
    int i = get_global_id(0);
    y[i] = x[i] * w[i % columns];
}
kernel void scale_w(global const float *grad, global const float *x, global float *grad_w, const int rows, const int columns)
{
    int j = get_global_id(0);
    float sum = 0;
    for (int i = 0; i < rows; i++) sum += grad[i * columns + j] * x[i * columns + j];
    grad_w[j] = sum;
}
kernel void sum_fours(global const float *x, global float *y, const int columns, const int groups)
{
    int i = get_global_id(0), row = i / groups, first = i % groups * 4;
    float sum = 0;
    for (int j = first; j < min(first + 4, columns); j++) sum += x[row * columns + j];
    y[i] = sum;
}
kernel void add_to(global float *x, const int amount) { x[get_global_id(0)] += amount; }
kernel void count(global float *y, const float step) { y[get_global_id(0)] = get_global_id(0) * step; }
kernel void sines(global const float *x, global float *y) { y[get_global_id(0)] = sin(x[get_global_id(0)]); }
"""
#: Kernels of 16-bit floats change the sign, so that no device needs their arithmetic.
NEGATE = "kernel void flip_{0}(global const ushort *x, global ushort *y) {{ size_t i = get_global_id(0); y[i] = x[i] ^ 0x8000; }}\n"
UPPER = "kernel void upper_half(global const uint *x, global ushort *y) { size_t i = get_global_id(0); y[i] = x[i] >> 16; }\n"
HALVES = ("float16", "bfloat16")


def kernels() -> devmod.Module:
    """Return the kernels."""
    fmap = {}
    for name, dtype, result in (
        *[(f"flip_{each}", each, each) for each in HALVES],
        ("upper_half", "float32", "bfloat16"),
    ):
        params = [Param("x", "buffer", dtype, "r"), Param("y", "buffer", result, "w")]
        fmap[name] = FunctionInfo(
            name, ["handle", "handle"], ["blockIdx.x", "threadIdx.x"], (), Interface(params)
        )
    halves = devmod.create(
        "opencl", "".join([*map(NEGATE.format, HALVES), UPPER]).encode(), "cl", fmap
    )
    return devmod.bundle(devmod.compile(SOURCE, "opencl", block=1), halves)


def programs(module: devmod.Module) -> devmod.Module:
    """Return the kernels with programs."""
    module = devmod.program(
        "weigh_backward",
        module,
        inputs=[
            "grad_y: float32[rows, columns]",
            "x: float32[rows, columns]",
            "w: float32[columns]",
        ],
        outputs=["grad_x: float32[rows, columns]", "grad_w: float32[columns]"],
        steps=[
            "scale(x=grad_y, w=w, y=grad_x, columns=columns, threads=rows * columns)",
            "scale_w(grad=grad_y, x=x, grad_w=grad_w, rows=rows, columns=columns, threads=columns)",
        ],
    )
    module = devmod.program(
        "weigh",
        module,
        inputs=["x: float32[rows, columns]", "w: float32[columns]"],
        outputs=["y: float32[rows, columns]"],
        steps="scale(x=x, w=w, y=y, columns=columns, threads=rows * columns)",
        backward="weigh_backward",
    )
    module = devmod.program(
        "fours",
        module,
        inputs=["x: float32[rows, columns]"],
        outputs=["y: float32[rows, ceildiv(columns, 4)]"],
        steps="sum_fours(x=x, y=y, columns=columns, groups=ceildiv(columns, 4), threads=rows * ceildiv(columns, 4))",
    )
    module = devmod.program(
        "shift",
        module,
        inputs=["amount: int32 = 2"],
        updates=["x: float32[n]"],
        steps="add_to(x=x, amount=amount, threads=n)",
    )
    module = devmod.program(
        "ramp",
        module,
        inputs=["n: int32", "step: float32 = 0.5"],
        outputs=["y: float32[min(n, 8)]"],
        requires=["n % 2 == 0"],
        steps="count(y=y, step=step, threads=min(n, 8))",
    )
    module = devmod.program(
        "pair",
        module,
        inputs=["x: float32[n]"],
        outputs=["y: float32[n]", "z: float32[n]"],
        steps=["sines(x=x, y=y, threads=n)", "sines(x=y, y=z, threads=n)"],
    )
    for dtype in HALVES:
        module = devmod.program(
            f"minus_{dtype}",
            module,
            inputs=[f"x: {dtype}[n]"],
            outputs=[f"y: {dtype}[n]"],
            steps=f"flip_{dtype}(x=x, y=y, block=1, threads=n)",
        )
    arrays = {"inputs": ["x: float32[n]"], "outputs": ["y: bfloat16[n]"]}
    return devmod.program(
        "upper", module, steps="upper_half(x=x, y=y, block=1, threads=n)", **arrays
    )


def stranger(
    name: str = "p", array: str = "x", dtype: str = "float32", **extra: Any
) -> devmod.Module:
    """Return a module with a program whose names nothing has checked."""
    copy = "kernel void copy(global const float *x, global float *y) { y[get_global_id(0)] = x[get_global_id(0)]; }"
    params = [
        Param(array, "buffer", dtype, "r", extra={"role": "input", "shape": ["n"]}),
        Param("y", "buffer", "float32", "w", extra={"role": "output", "shape": ["n"]}),
        *[
            Param(each, "scalar", "float32", extra={"role": "input", "value": value})
            for each, value in extra.pop("scalars", {}).items()
        ],
    ]
    interface = Interface(params, extra={"kernels": ["copy"], **extra})
    steps = [["copy", {"x": array, "y": "y"}, {"threads": ["n"], "block": [1]}]]
    info = FunctionInfo(
        name, ["handle", "handle", *["float32"] * (len(params) - 2)], interface=interface
    )
    code = {name: msgpack.packb({"requires": [], "steps": steps})}
    module = devmod.load_from_bytes(
        "program",
        devmod.create_with_fallback("program", code, "steps1", {name: info}).save_to_bytes(),
    )
    kernel = devmod.compile(copy, "opencl", block=1)
    module.import_module(kernel)
    return devmod.bundle(module, kernel, mixed=True)


@pytest.fixture(name="path", scope="session")
def path_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the programs."""
    first_device("opencl")
    path: Path = tmp_path_factory.mktemp("programs") / "programs.devmod"
    devmod.save(programs(kernels()), path)
    return path


def error_of(call: Callable[..., object], *args: Any, **keywords: Any) -> str:
    """Return the text of an error of devmod."""
    with pytest.raises((devmod.ArgumentError, devmod.FormatError)) as caught:
        call(*args, **keywords)
    return str(caught.value)
