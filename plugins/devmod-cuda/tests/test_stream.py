"""What only CUDA's streams have; plugins/driver-api/tests has the tests of streams, events
and graphs.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from foreign_context import foreign_context
from standin_cuda import CUDA, Standin

import devmod


def test_the_default_stream_is_cudas_legacy_default_stream(device: Any) -> None:
    assert device.default_stream.__cuda_stream__() == (0, 1)


# -- streams of other libraries


@pytest.mark.each_driver
def test_a_stream_of_pycuda(device: Any, add: Any) -> None:
    pycuda = pytest.importorskip("pycuda.driver", reason=CUDA.missing_driver("pycuda"))
    pycuda.init()
    context = pycuda.Device(0).retain_primary_context()
    context.push()
    try:
        stream = pycuda.Stream()
        a, b, c = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 2, 0))
        add(a, b, c, 64, grid=1, block=64, stream=stream)
        stream.synchronize()
        assert c.numpy().tolist() == [3] * 64
        del stream
        gc.collect()
    finally:
        context.pop()


def test_a_stream_and_a_buffer_of_cuda_core(device: Any, add: Any) -> None:
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    owner = core.Device(0)
    with device.context:
        owner.set_current()
        stream = owner.create_stream()
        buffer = owner.allocate(256, stream=stream)
    a, b = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 2))
    add(a, b, buffer, 64, grid=1, block=64, stream=stream)
    add(buffer, b, a, 64, grid=1, block=64, stream=stream)
    stream.sync()
    assert a.numpy().tolist() == [5] * 64
    buffer.close(stream)
    stream.sync()
    stream.close()


@pytest.mark.each_driver
def test_a_stream_of_another_context(device: Any, add: Any) -> None:
    a, b, c = (device.zeros(64, "float32") for _ in range(3))
    with foreign_context(device):
        handle = device.driver.call("create_stream", 1)
        assert refusal(
            devmod.ArgumentError,
            add,
            a,
            b,
            c,
            64,
            grid=1,
            block=64,
            stream=CUDA.foreign_stream("own", handle),
        ) == (
            "stream= is a stream of a CUDA context that has no device of devmod: make one with devmod.device(context), or with "
            "devmod_cuda.current_device() while the context is current, and keep it during the call"
        )
        add(a, b, c, 64, grid=1, block=64)  # the current context is the other one
        device.driver.call("destroy_stream", handle)
    device.synchronize()


@pytest.mark.each_driver
@pytest.mark.parametrize("outcome", ["stream", "handle", "context"])
@pytest.mark.parametrize("has_stream", [False, True])
def test_a_launch_while_another_context_is_current(
    has_stream: bool, outcome: str, device: Any, add: Any, standin: Standin
) -> None:
    # CUDA documents that the contexts of the stream and the function match, and not whether theirs
    # must be current.
    standin.set("launch_context", outcome)
    a, b, c = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 2, 0))
    stream = device.stream() if has_stream else None
    launch = add.bind(a, b, c, 64, grid=1, block=64, stream=stream)
    with foreign_context(device) as other:
        before = standin.launches
        for call in (launch, launch, lambda: add(a, c, c, 64, grid=1, block=64, stream=stream)):
            call()
            assert device.driver.call("current_context") == other
        assert standin.launches == before + 3
        device.synchronize()
        assert c.numpy().tolist() == [4] * 64
        assert device.driver.call("current_context") == other


@pytest.mark.each_driver
@pytest.mark.parametrize("has_stream", [False, True])
def test_a_launch_after_another_library_has_destroyed_the_current_context(
    has_stream: bool, device: Any, add: Any, standin: Standin
) -> None:
    a, c = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 0))
    stream = device.stream() if has_stream else None
    launch = add.bind(a, c, c, 64, grid=1, block=64, stream=stream)
    is_current, is_destroyed, results = threading.Event(), threading.Event(), []

    def work(other: int) -> None:
        device.driver.call("set_context", other)
        is_current.set()
        is_destroyed.wait()
        before = standin.launches
        launch()
        add(a, c, c, 64, grid=1, block=64, stream=stream)
        device.synchronize()
        results.append(
            (
                standin.launches - before,
                c.numpy().tolist(),
                device.driver.call("current_context") == other,
            )
        )

    with foreign_context(device) as other:
        thread = threading.Thread(target=work, args=[other])
        thread.start()
        is_current.wait()
    is_destroyed.set()
    thread.join()
    assert results == [(2, [2.0] * 64, True)]
