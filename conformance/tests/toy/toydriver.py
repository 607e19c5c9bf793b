"""The driver of the toy backend: two devices in this process. Memory is a bytearray, and a kernel
is a Python function.
"""

from __future__ import annotations

import math
import struct
import time
from typing import Any

import numpy as np

#: The number of threads in the largest block.
MAX_BLOCK = 1024
DEVICES = ("toy number 0", "toy number 1")


class Queue:
    """A queue of a program that uses the driver by itself."""


def configure(block: tuple[int, int, int]) -> None:
    """Raise the driver's error for a block that is too large."""
    if math.prod(block) > MAX_BLOCK:
        raise ValueError("toy error 7: invalid configuration")


def axpy(threads: int, x: bytearray, y: bytearray, a: bytes, n: bytes) -> None:
    count = min(int.from_bytes(n, "little", signed=True), threads)
    ys = np.frombuffer(y, np.float32)
    ys[:count] += struct.unpack("<f", a)[0] * np.frombuffer(x, np.float32)[:count]


def negate(threads: int, x: bytearray) -> None:
    xs = np.frombuffer(x, np.int32)
    xs[:threads] *= -1


def shift(threads: int, x: bytearray, how: bytes, scratch: bytearray) -> None:
    amount, count = struct.unpack("<ii", how)
    assert len(scratch) >= 4 * threads
    xs = np.frombuffer(x, np.int32)
    xs[:count] += amount


def wait(threads: int, x: bytearray) -> None:
    time.sleep(0.02)


def sample(threads: int, source: Any, sampler: Any, places: bytearray, result: bytearray) -> None:
    """Read an image at places; `source` and `sampler` are devmod's objects."""
    from devmod_conformance._sampling import sample_image, texel_values

    texels = np.frombuffer(source.handle, source.texel.dtype).reshape(source.array_shape)
    places = np.frombuffer(places, np.float32).reshape(-1, len(source.shape) + bool(source.layers))
    how = {"filter": sampler.filter, "address": sampler.address, "normalized": sampler.normalized}
    read = sample_image(
        texel_values(texels, source.format, len(source.array_shape) - (source.texel.channels > 1)),
        places,
        **how,
    )
    np.frombuffer(result, np.float32).reshape(-1, 4)[:threads, : read.shape[1]] = read[:threads]


def write(threads: int, destination: Any) -> None:
    """Write the position of each thread to its texel."""
    x, y = np.meshgrid(*map(np.arange, destination.shape))
    np.frombuffer(destination.handle, np.uint8).reshape(destination.array_shape)[:] = np.stack(
        [x, y, x + y, 255 + 0 * x], axis=-1
    )


def subgroup(threads: int, result: bytearray) -> None:
    """Report the size of subgroups, which is always 4."""
    np.frombuffer(result, np.uint32)[:threads] = 4


def transpose(
    threads: int, source: bytearray, target: bytearray, width: bytes, height: bytes
) -> None:
    w, h = (int.from_bytes(each, "little") for each in (width, height))
    np.frombuffer(target, np.float32)[: w * h].reshape(w, h)[:] = (
        np.frombuffer(source, np.float32)[: w * h].reshape(h, w).T
    )


def store(threads: int, result: bytearray, value: bytes) -> None:
    result[: len(value)] = value


GLOBALS = {"weights": [0.0, 1.0, 2.0, 3.0]}
KERNELS = {
    "axpy": axpy,
    "negate": negate,
    "shift": shift,
    "wait": wait,
    "sample": sample,
    "write": write,
    "subgroup": subgroup,
    "transpose": transpose,
    "store": store,
}
