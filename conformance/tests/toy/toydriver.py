"""The driver of the toy backend: two devices in this process. Memory is a bytearray, and a kernel is a Python function."""

from __future__ import annotations

import struct
import time

import numpy as np

DEVICES = ("toy number 0", "toy number 1")


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


GLOBALS = {"weights": [0.0, 1.0, 2.0, 3.0]}
KERNELS = {"axpy": axpy, "negate": negate, "shift": shift, "wait": wait}
