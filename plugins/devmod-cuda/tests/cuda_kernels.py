"""Kernels of several tests, and the declarations of their functions. NVRTC compiles them to PTX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from backend_checks import sample_image
from ptx_sources import ptx_of

import devmod
from devmod import FunctionInfo, Interface, Param

ADD = """
extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void twice(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }
extern "C" __global__ void step(int *x, int a) { x[threadIdx.x] = 2 * x[threadIdx.x] + a; }
extern "C" __global__ void fault(float *x) { *(int *)16 = x[0]; }
"""
TAGS = ["blockIdx.x", "threadIdx.x"]


def info_of(name: str, params: Sequence[Param]) -> FunctionInfo:
    """Return the FunctionInfo of a kernel with these parameters."""
    types = ["handle" if param.kind == "buffer" else param.type for param in params]
    return FunctionInfo(name, types, TAGS, (), Interface(list(params)))


def add_info() -> FunctionInfo:
    """Return the FunctionInfo of `add`."""
    params = [
        Param(name, "buffer", "float32", access)
        for name, access in (("a", "r"), ("b", "r"), ("c", "w"))
    ]
    return info_of("add", [*params, Param("n", "scalar", "int32")])


def adder() -> devmod.Module:
    """Return a new module with `add`, `twice`, `step` (x = 2 x + a) and `fault`, which writes to an
    invalid address.
    """
    x = [Param("x", "buffer", "float32", "rw")]
    step = [Param("x", "buffer", "int32", "rw"), Param("a", "scalar", "int32")]
    fmap = {
        "add": add_info(),
        "twice": info_of("twice", x),
        "step": info_of("step", step),
        "fault": info_of("fault", x),
    }
    return devmod.create("cuda", ptx_of(ADD).encode(), "ptx", fmap)


def check_samples(
    device: Any, sample: Callable[..., object], filter_: str, address: str, *, normalized: bool
) -> None:
    """Compare what a kernel reads through a sampler with NumPy. `sample` takes the image, the
    sampler, 200 places and the result.
    """
    rng = np.random.default_rng(3)
    picture = rng.random((5, 7, 4), "float32")
    places = rng.uniform(-1.2, 2.2, (200, 2)).astype("float32") * (
        1 if normalized else np.float32([7, 5])
    )
    out = np.zeros((200, 4), "float32")
    sample(
        device.image_from_numpy(picture),
        device.sampler(filter=filter_, address=address, normalized=normalized),
        places,
        out,
    )
    expected = sample_image(
        picture,
        places if normalized else places / np.float32([7, 5]),
        filter=filter_,
        address=address,
    )
    assert np.abs(out - expected).max() < (2 / 512 + 1e-5 if filter_ == "linear" else 1e-6)
