"""Checks of arrays that the tests of several backends share: copies, views, and too little memory.

A backend brings its device and its kernel `add`, as in `devmod_conformance.checks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import devmod
from devmod import Device, Event, Function
from devmod_conformance._rows._tools import import_numpy
from devmod_conformance.checks import check_error, make_arrays


def check_copies(device: Device, add: Function, **shape: Any) -> None:
    """Check copies between arrays and with the host, and that they are in the order of a stream."""
    np = import_numpy()
    a, b, c = make_arrays(device)
    ones, wide = np.ones(64, "float32"), np.zeros((64, 2), "float32")
    # A copy over memory that a queued launch still reads: the launch reads the old elements.
    launch = add.bind(a, b, c, 64, **shape)
    for _ in range(10):
        launch()
    _reach(a.copy_from(np.full(64, 5, "float32"), wait=False))
    np.testing.assert_array_equal(c.numpy(out=np.empty(64, "float32")), np.arange(64) + 1)
    # A chain without the host, on a stream of its own.
    stream, after = device.stream(), device.default_stream.record()
    stream.wait(after)
    zeros = device.zeros((8, 8), "float32")
    np.testing.assert_array_equal(zeros.numpy(), np.zeros((8, 8)))
    for _ in range(3):
        add(a, b, c, 64, **shape, stream=stream)
        a.copy_from(c, stream=stream, wait=False)
    _reach(c.reshape(8, 8).copy_to(zeros, stream=stream, wait=False))
    np.testing.assert_array_equal(zeros.numpy(), np.full((8, 8), 8))
    # The host: contiguous and strided, with and without a wait.
    for wait in (True, False):
        for host in (np.empty(64, "float32"), wide[:, int(wait)]):
            a.copy_from(ones, stream=stream, wait=wait)
            add(a, b, c, 64, **shape, stream=stream)
            result = c.copy_to(host, stream=stream, wait=wait)
            if not wait:
                _reach(result)
            np.testing.assert_array_equal(host, np.full(64, 2))
    # The stream or the device may be waited for in place of the event.
    for waiter in (stream, device):
        host = np.empty(64, "float32")
        c.copy_to(host, stream=stream, wait=False)
        waiter.synchronize()
        np.testing.assert_array_equal(host, np.full(64, 2))
    large = np.arange(1 << 20, dtype="float32")
    array, back = device.empty(large.shape, "float32"), np.empty_like(large)
    array.copy_from(large, stream=stream, wait=False)
    _reach(array.copy_to(back, stream=stream, wait=False))
    np.testing.assert_array_equal(back, large)
    device.synchronize()


def check_new_arrays(device: Device, delay: Callable[[], object]) -> None:
    """Check that another stream may use a new array at once. `delay` queues a slow launch in the default stream."""
    np = import_numpy()
    stream, ones = device.stream(), np.ones(1 << 12, "float32")
    for expected in (0, 1):
        delay()
        array, host = device.from_numpy(ones) if expected else device.zeros(ones.shape, "float32"), np.full_like(ones, 7)
        array.copy_to(host, stream=stream)
        np.testing.assert_array_equal(host, np.full_like(ones, expected))
        array.copy_from(ones * 2, stream=stream)
        np.testing.assert_array_equal(array.numpy(), ones * 2)


def check_views(device: Device, add: Function, **shape: Any) -> None:
    """Check views of a part of an array: as arguments, in copies, and which of them are refused."""
    np = import_numpy()
    step = max(device.limits["view_alignment"] // 4, 64)
    host = np.arange(3 * step + 64, dtype="float32")
    root, b, c = device.from_numpy(host), make_arrays(device)[1], device.zeros(2 * step, "float32")
    view, target = root[step : step + 64], c[step:][:64]
    for _ in range(2):
        add(view, b, target, 64, **shape)
    np.testing.assert_array_equal(c.numpy()[step - 1 : step + 65], [0, *(host[step : step + 64] + 1), *[0] * (step > 64)])
    launch = add.bind(view.reshape(8, 8), b, c[:64].reshape(8, 8), 64, **shape)
    launch()
    np.testing.assert_array_equal(c.numpy()[:64], host[step : step + 64] + 1)
    np.testing.assert_array_equal(root.numpy(), host)
    # A copy begins and ends anywhere.
    for start, stop in ((1, 4), (3, step + 5), (0, 1), (2 * step + 3, 3 * step + 64)):
        part = root[start:stop]
        np.testing.assert_array_equal(part.numpy(), host[start:stop])
        part.copy_from(-host[start:stop])
        copied = device.empty(part.shape, "float32")
        copied.copy_from(part)
        np.testing.assert_array_equal(copied.numpy(), -host[start:stop])
        part.copy_from(device.from_numpy(host[start:stop]))
        np.testing.assert_array_equal(root.numpy(), host)
    root[0:8].copy_from(root[4:12])
    host[0:8] = host[4:12].copy()
    root[2 * step :].copy_from(root[step : 2 * step + 64])
    host[2 * step :] = host[step : 2 * step + 64].copy()
    np.testing.assert_array_equal(root.numpy(), host)
    if device.limits["view_alignment"] > 4:
        misaligned = root[1:65]
        check_error(
            devmod.ArgumentError,
            lambda: add(misaligned, b, target, 64, **shape),
            f"the {device.kind} function 'add': argument 1 'a' is a view that begins 4 bytes into its memory, and {device} takes arguments "
            f"that begin at a multiple of {device.limits['view_alignment']} bytes (view_alignment); copy it: "
            "array = device.empty(view.shape, view.dtype); array.copy_from(view)",
        )
        del misaligned
    inner = root[step:][:64]
    del root, view, part, launch
    np.testing.assert_array_equal(inner.numpy(), host[step : step + 64])
    empty = inner[64:]
    np.testing.assert_array_equal(empty.numpy(), [])
    np.testing.assert_array_equal(inner[3:3].numpy(), [])


def check_memory_error(device: Device, add: Function, nbytes: int, reason: str, **shape: Any) -> None:
    """Check that an array of `nbytes` bytes is refused with `reason`, and that the device works afterwards."""
    a, b, c = make_arrays(device)
    for _ in range(2):
        try:
            device.empty(nbytes, "uint8")
        except devmod.DeviceMemoryError as error:
            free = device.free_memory()
            end = "" if free is None else "; "
            text = f"{device} cannot allocate {nbytes} bytes: {reason}{end}"
            if not str(error).startswith(text) or (free is None and str(error) != text):
                raise AssertionError(f"the text of the DeviceMemoryError is {str(error)!r}; expected {text!r}") from error
            if error.requested != nbytes or (error.free is None) != (free is None):
                raise AssertionError(f"the DeviceMemoryError has requested={error.requested}, free={error.free}") from error
        else:
            raise AssertionError(f"nothing was raised for an array of {nbytes} bytes; expected DeviceMemoryError")
        add(a, b, c, 64, **shape)
        import_numpy().testing.assert_array_equal(c.numpy(), import_numpy().arange(64) + 1)


def _reach(event: Event | None) -> None:
    if event is None:
        raise AssertionError("a copy with wait=False returned None; expected an event")
    event.synchronize()
