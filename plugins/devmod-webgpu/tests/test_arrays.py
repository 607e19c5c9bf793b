"""Arrays on WebGPU devices: copies, views, and too little memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_checks import run_in_threads
from each_case import raised, refusal
from webgpu_shaders import function

import devmod

BOTH = (
    "@group(0) @binding(0) var<storage, read_write> x: array<u32>;"
    "@group(0) @binding(1) var<storage, read> y: array<u32>;"
    "@group(0) @binding(2) var<storage, read_write> z: array<u32>;"
)


def test_the_driver_has_too_little_memory(
    device: Any, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wgpu

    def refuse(*_: object, **__: object) -> None:
        raise wgpu.GPUOutOfMemoryError("Not enough memory left.")

    a, b, c = (device.zeros(64, "float32") for _ in range(3))
    large = device.zeros(3 << 20, "float32")  # no staging buffer of that size is kept
    with monkeypatch.context() as patch:
        patch.setattr(device.gpu, "create_buffer", refuse)
        for work, what in (
            (lambda: device.zeros(64, "float32"), "cannot allocate 256 bytes: "),
            (lambda: add(np.zeros(64, "float32"), b, c, 64, grid=1), "cannot allocate 256 bytes: "),
            (
                large.numpy,
                f"has too little free memory: a copy of 12582912 bytes from {device} failed: ",
            ),
            (
                lambda: a[:32].copy_from(a[32:]),
                f"has too little free memory: a copy of 128 bytes on {device} failed: ",
            ),
        ):
            text = refusal(devmod.DeviceMemoryError, work)
            assert text == f"{device} {what}Not enough memory left."
    add(a, b, c, 64, grid=1)
    assert c.numpy().sum() == 0


def test_copies_to_the_host_share_no_staging_memory(device: Any) -> None:
    sizes = [1, 64, 60, 64, 1, 5000, 4097, 3 << 20]
    arrays = [
        device.from_numpy(np.full(size, number, "float32")) for number, size in enumerate(sizes)
    ]
    for _ in range(3):
        hosts = [np.full(size, -1, "float32") for size in sizes]
        for array, host in zip(arrays, hosts, strict=True):
            array.copy_to(host, wait=False)
        device.synchronize()
        for number, host in enumerate(hosts):
            assert (host == number).all()


@pytest.mark.parametrize("dtype", ["uint8", "float16"])
def test_parts_of_words_are_copied(dtype: str, device: Any) -> None:
    host = np.arange(1, 24, dtype=dtype)
    array = device.from_numpy(host)
    for start in range(12):
        for stop in (start + 1, start + 2, start + 5, 22, 23):
            values = np.arange(100, 100 + stop - start, dtype=dtype)
            np.testing.assert_array_equal(array[start:stop].numpy(), host[start:stop])
            array[start:stop].copy_from(values)
            expected = host.copy()
            expected[start:stop] = values
            np.testing.assert_array_equal(array.numpy(), expected)
            other = device.from_numpy(host)
            array[start:stop].copy_from(other[start:stop])
            np.testing.assert_array_equal(array.numpy(), host)


def test_slices_of_one_buffer_as_read_only_and_writable_argument(device: Any) -> None:
    step = device.limits["view_alignment"] // 4
    f, root, other = (
        function(BOTH, "x[0] = y[1] + z[0];"),
        device.from_numpy(np.arange(4 * step, dtype="uint32")),
        device.zeros(4, "uint32"),
    )
    first, second = root[:step], root[step : 2 * step]
    f(first, other, second, grid=1)  # two writable slices
    assert root.numpy()[0] == step
    for arguments, what in (
        ((first, second, other), "views of one buffer"),
        ((root, second, other), "views of one buffer"),
    ):
        for call in (lambda *args: f(*args, grid=1), lambda *args: f.bind(*args, grid=1)):
            error = raised(devmod.ArgumentError, call, *arguments)
            assert str(error) == (
                f"the webgpu function 'k': argument 2 'y' and argument 1 'x' are {what}, and the shader declares one of them as read-only. "
                "WebGPU forbids this in one launch; pass a copy for one of them"
            )
            assert error.argument == "y"


def test_a_view_that_ends_within_a_word_is_no_argument(device: Any) -> None:
    if "shader-f16" not in device.features:
        pytest.skip("elements of less than a word need the feature shader-f16")
    f = function(
        "enable f16; @group(0) @binding(0) var<storage, read_write> x: array<f16>;",
        "x[arrayLength(&x) - 1] += 1;",
    )
    root = device.zeros(15, "float16")
    f(root[:8], grid=1)
    f(root[:], grid=1)  # the last word of the whole array has padding
    assert refusal(devmod.ArgumentError, f, root[:3], grid=1) == (
        "the webgpu function 'k': argument 1 'x' is a view of 6 bytes, and WebGPU binds whole words of 4 bytes: the last word has elements "
        "that are not in the view; end it at a word"
    )
    assert root.numpy().tolist() == [*[0] * 7, 1, *[0] * 7]


def test_a_started_read_writes_to_the_host_once(device: Any) -> None:
    """A thread that waited too does not write after another thread's wait has returned."""
    host = np.zeros(4, "int32")
    event: Any = device.from_numpy(np.ones(4, "int32")).copy_to(host, wait=False)
    (download,) = device._downloads.values()
    event.synchronize()
    assert host.tolist() == [1] * 4
    host[:] = 2
    download.finish()
    assert host.tolist() == [2] * 4


def test_a_started_read_is_done_in_every_thread_that_waits(device: Any, add: Any) -> None:
    a, b, c = (device.from_numpy(np.ones(64, "float32")) for _ in range(3))
    for _ in range(20):
        add(a, b, c, 64, grid=1)
        host = np.zeros(64, "float32")
        event: Any = c.copy_to(host, wait=False)
        assert (
            run_in_threads(
                lambda wait, host=host: (wait(), float(host[-1]))[1],
                [event.synchronize, device.synchronize] * 2,
            )
            == [2] * 4
        )
    assert device._downloads == {}
