"""Arrays on Metal devices: copies, views, DLPack, and too little memory. `device` is the GPU of a
Mac or the double.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from backend_checks import check_memory_error
from each_case import refusal
from metal_kernels import adder

import devmod


def test_copies_that_are_not_whole_words(device: Any) -> None:
    host = np.arange(23, dtype="uint8")
    array, other = device.from_numpy(host), device.zeros(23, "uint8")
    for start, stop in ((0, 8), (1, 4), (3, 23), (4, 21)):
        other[start:stop].copy_from(array[start:stop])
        other[start:stop].copy_from(-host[start:stop], wait=False)
        np.testing.assert_array_equal(other.numpy()[start:stop], -host[start:stop])


def test_a_copy_runs_in_the_queue(double: Any) -> None:
    device = devmod.device("metal")
    source, target = device.from_numpy(np.ones(64, "float32")), device.zeros(64, "float32")
    double.calls.clear()
    event = target[8:40].copy_from(source[16:48], wait=False)
    target[40:].copy_from(np.full(24, 3, "float32"), wait=False)
    assert [
        (name, *numbers)
        for name, *numbers in ((call[0], *call[2:]) for call in double.calls)
        if name == "copy"
    ] == [
        ("copy", 64, 32, 128),
        ("copy", 0, 160, 96),
    ]
    assert device.view(target.memory)[32] == 0  # the double runs commands when the host waits
    event.synchronize()
    assert target.numpy().tolist() == [0] * 8 + [1] * 32 + [3] * 24


def test_too_little_memory(double: Any) -> None:
    device, add = devmod.device("metal"), adder()["add"]
    check_memory_error(device, 1 << 40, "its maxBufferLength is 268435456")
    a, b, c = (device.zeros(64, "float32") for _ in range(3))
    double.refuse["buffer"] = "no buffer"
    text = f"{device} cannot allocate 256 bytes: no buffer; 536870912 bytes are free of 1073741824"
    for work in (
        lambda: device.empty(64, "float32"),
        lambda: add(np.zeros(64, "float32"), b, c, 64, grid=1, block=64),
        lambda: a.copy_from(np.zeros(64, "float32"), wait=False),
    ):
        assert refusal(devmod.DeviceMemoryError, work) == text
        add(a, b, c, 64, grid=1, block=64)
    double.refuse.clear()
    add(np.ones(64, "float32"), b, c, 64, grid=1, block=64)
    assert c.numpy().sum() == 64


def test_a_copy_that_metal_refuses(double: Any) -> None:
    device = devmod.device("metal")
    a, b = device.zeros(64, "float32"), device.zeros(64, "float32")
    double.refuse["copy"] = "no command buffer"
    assert (
        refusal(devmod.LaunchError, a.copy_from, b)
        == f"a copy of 256 bytes on {device} failed: no command buffer"
    )


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
    )


@pytest.mark.parametrize("dl_device", [None, (8, 0)])
def test_dlpack_exports_metals_buffer(dl_device: tuple[int, int] | None, double: Any) -> None:
    device = devmod.device("metal")
    array = device.from_numpy(np.arange(64, dtype="float32"))[16:].reshape(4, 12)
    capsule = array.__dlpack__(dl_device=dl_device)
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    address = pointer(capsule, b"dltensor")
    tensor = Tensor.from_address(address)
    assert (tensor.data, tensor.device_type, tensor.device_id, tensor.ndim) == (
        id(array.memory.handle),
        8,
        0,
        2,
    )
    assert ctypes.c_uint64.from_address(address + 40).value == 64  # byte_offset
    view = np.from_dlpack(array, device="cpu")
    assert view[0].tolist() == list(range(16, 28))
    view[0, 0] = 7
    assert array.numpy()[0, 0] == 7
