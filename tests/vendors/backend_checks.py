"""Checks that the tests of several backends share. A backend brings its device and its kernels.

`add` is a kernel ``add(a, b, c, n)`` over arrays of float32 that sets ``c = a + b``; `shape` is the
launch of its 64 threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import devmod
from devmod import Device, Function, Module
from devmod.backend import payload_of
from devmod_conformance._rows._tools import run_in_threads as run_in_threads
from devmod_conformance._sampling import sample_image as sample_image


def run_python(program: str, *options: str, **environment: str) -> str:
    """Run a program, which may import this module, in a new Python process and return its standard
    output.

    Raises
    ------
    AssertionError
        The process failed; the message is its standard error.
    """
    path = (environment.get("PYTHONPATH", os.environ.get("PYTHONPATH")), str(Path(__file__).parent))
    process = subprocess.run(
        [sys.executable, "-P", *options, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        check=False,
        timeout=600,
    )
    if process.returncode:
        raise AssertionError(process.stderr)
    return process.stdout


def first_device(kind: str, feature: str = "") -> Device:
    """Return the first device of a kind. Skip the test if there is none, or if it lacks the
    feature.
    """
    import pytest

    try:
        device = devmod.device(kind)
    except devmod.DeviceNotFoundError as error:
        pytest.skip(str(error))
    if feature and feature not in device.features:
        pytest.skip(f"{device} has no {feature}")
    return device


def host_arrays(size: int = 64) -> tuple[Any, Any, Any]:
    """Return host arrays for `a`, `b` and `c` of the kernel `add`: 0, 1, 2, …; ones; zeros."""
    return np.arange(size, dtype="float32"), np.ones(size, "float32"), np.zeros(size, "float32")


def check_scalar(call: Callable[[Any, Any], object], dtype: str, size: int = 4) -> None:
    """Check that ``call(x, value)`` sets each element of `x` to `value`, for the extremes of a
    dtype.
    """
    info = np.iinfo(dtype) if dtype[0] in "iu" else np.finfo(dtype)
    for value in (info.max, info.min, 7):
        x = np.zeros(size, dtype)
        call(x, x.dtype.type(value))
        np.testing.assert_array_equal(x, np.full(size, value, dtype))


def check_two_devices(add: Function, first: Device, second: Device, **shape: Any) -> None:
    """Check that one function serves two devices, and that an event of one has no times with those
    of the other.
    """
    wanted = np.arange(64, dtype="float32") + 1
    for device in (second, first, second):
        a, b, c = make_arrays(device)
        add(a, b, c, 64, **shape)
        if c.device is not device:
            raise AssertionError(f"an array of {device} is on {c.device}")
        np.testing.assert_array_equal(c.numpy(), wanted)
    c = np.zeros(64, "float32")
    add(
        np.arange(64, dtype="float32"),
        np.ones(64, "float32"),
        c,
        64,
        **shape,
        stream=second.stream(),
    )
    np.testing.assert_array_equal(c, wanted)
    event = first.default_stream.record()
    second.default_stream.wait(event)
    check_error(
        devmod.ArgumentError,
        lambda: second.default_stream.record().elapsed(event),
        f"elapsed takes an event of {second}, not one of {first}",
    )


def check_error(kind: type[Exception], call: Callable[[], object], text: str) -> None:
    """Check that a call raises an error with exactly this text."""
    try:
        call()
    except kind as error:
        if str(error) != text:
            raise AssertionError(
                f"the text of the {kind.__name__} is {str(error)!r}; expected {text!r}"
            ) from error
        return
    raise AssertionError(f"nothing was raised; expected {kind.__name__}: {text}")


def make_arrays(device: Device) -> list[Any]:
    """Return `host_arrays` on a device."""
    return [device.from_numpy(each) for each in host_arrays()]


def code_of(module: Module) -> bytes:
    """Return the code of a module's payload.

    Raises
    ------
    AssertionError
        The module has no payload, or one that is no bytes.
    """
    payload = payload_of(module)
    if payload is None or not isinstance(payload[3], (bytes, memoryview)):
        raise AssertionError(f"{module} has no code")
    return bytes(payload[3])


# -- arrays: copies, views, and too little memory


def release_copies(device: Any) -> None:
    """Finish the copies of a device of a driver API that are done, and free the page-locked memory
    that no copy uses.
    """
    device.transfers.finish()
    for pool in device.transfers._pools.values():
        for _ in range(len(pool)):
            pool.take()


def check_new_arrays(device: Device, delay: Callable[[], object]) -> None:
    """Check that another stream may use a new array at once. `delay` queues a slow launch in the
    default stream.
    """
    stream, ones = device.stream(), np.ones(1 << 12, "float32")
    for expected in (0, 1):
        delay()
        array, host = (
            device.from_numpy(ones) if expected else device.zeros(ones.shape, "float32"),
            np.full_like(ones, 7),
        )
        array.copy_to(host, stream=stream)
        np.testing.assert_array_equal(host, np.full_like(ones, expected))
        array.copy_from(ones * 2, stream=stream)
        np.testing.assert_array_equal(array.numpy(), ones * 2)


def check_memory_error(device: Device, nbytes: int, reason: str) -> None:
    """Check that an array of `nbytes` bytes is refused with `reason`. The kit's row R37-memory
    shows that the device works afterwards.
    """
    try:
        device.empty(nbytes, "uint8")
    except devmod.DeviceMemoryError as error:
        free = device.free_memory()
        end = "" if free is None else "; "
        text = f"{device} cannot allocate {nbytes} bytes: {reason}{end}"
        if not str(error).startswith(text) or (free is None and str(error) != text):
            raise AssertionError(
                f"the text of the DeviceMemoryError is {str(error)!r}; expected {text!r}"
            ) from error
        if error.requested != nbytes or (error.free is None) != (free is None):
            raise AssertionError(
                f"the DeviceMemoryError has requested={error.requested}, free={error.free}"
            ) from error
    else:
        raise AssertionError(
            f"nothing was raised for an array of {nbytes} bytes; expected DeviceMemoryError"
        )
