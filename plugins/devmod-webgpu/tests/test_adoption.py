"""Devices over a GPUDevice or a GPUQueue of wgpu that the caller has (`devmod.device`)."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from webgpu_shaders import function

import devmod
from devmod_runtime._launch.call import KernelCall

pytestmark = pytest.mark.row("R57")


@pytest.fixture
def gpu(device: Any) -> Any:
    """The caller's GPUDevice, with the default limits."""
    return device._adapter.request_device_sync()


@pytest.fixture
def twice() -> Any:
    return function(
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;", "x[id.x] *= 2;"
    )


def buffer_of(gpu: Any, values: list[float]) -> Any:
    import wgpu

    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    return gpu.create_buffer_with_data(data=np.float32(values), usage=usage)


def values_of(gpu: Any, buffer: Any) -> list[float]:
    return np.frombuffer(gpu.queue.read_buffer(buffer), np.float32).tolist()  # type: ignore[no-any-return]


def test_one_gpu_device_has_one_device(device: Any, gpu: Any) -> None:
    adopted = devmod.device(gpu)
    assert devmod.device(gpu) is devmod.device(gpu.queue) is adopted
    assert adopted is not device
    assert (adopted.kind, adopted.index, adopted.name) == ("webgpu", device.index, device.name)
    assert repr(adopted) == f"{device} over the wgpu.GPUDevice 0x{id(gpu):x}"
    assert adopted.gpu is gpu
    # What devmod has already.
    assert devmod.device(device.gpu) is devmod.device(device.gpu.queue) is device


def test_the_limits_and_features_are_those_of_the_gpu_device(device: Any) -> None:
    small = {"max-compute-workgroup-size-x": 32, "max-buffer-size": 1 << 20}
    gpu = device._adapter.request_device_sync(required_limits=small)
    adopted = devmod.device(gpu)
    assert adopted.limits["maxBufferSize"] == gpu.limits["max-buffer-size"]
    assert adopted.limits["maxComputeWorkgroupSizeX"] == gpu.limits["max-compute-workgroup-size-x"]
    assert adopted.features == {"images"}
    assert adopted.features < device.features
    text = refusal(devmod.DeviceMemoryError, adopted.empty, (1 << 20) + 4, "uint8")
    if adopted.limits["maxBufferSize"] == 1 << 20:
        assert text.endswith("its maxBufferSize is 1048576")
    event = adopted.default_stream.record()
    event.synchronize()
    assert refusal(devmod.LaunchError, event.elapsed, event) == (
        f"{adopted} cannot time events: it does not support the feature timestamp-query"
    )


def test_launches_are_in_the_order_of_the_callers_commands(gpu: Any, twice: Any) -> None:
    """The caller's queue has writes and copies before, between and after the launches."""
    device = devmod.device(gpu)
    f = twice.on(device)
    x = buffer_of(gpu, [1] * 4)
    seen = [buffer_of(gpu, [0] * 4) for _ in range(3)]

    def copy(target: Any) -> None:
        encoder = gpu.create_command_encoder()
        encoder.copy_buffer_to_buffer(x, 0, target, 0, 16)
        gpu.queue.submit([encoder.finish()])

    gpu.queue.write_buffer(x, 0, np.full(4, 3, np.float32))
    f(x, grid=4)
    copy(seen[0])
    twice(x, grid=4)
    twice(x, grid=4, stream=gpu.queue)
    copy(seen[1])
    gpu.queue.write_buffer(x, 0, np.full(4, 5, np.float32))
    f.bind(x, grid=4)()
    copy(seen[2])
    assert [values_of(gpu, each) for each in seen] == [[6] * 4, [24] * 4, [10] * 4]


@pytest.mark.parametrize("has_device", [False, True])
def test_memory_is_freed_after_the_work_in_a_queue_that_is_gone(
    gpu: Any, twice: Any, has_device: bool
) -> None:
    """wgpu keeps buffers until the commands with them are complete."""
    device = devmod.device(gpu)
    out = buffer_of(gpu, [0] * 4)
    launch = {} if has_device else {"stream": gpu.queue}
    function = twice.on(device) if has_device else twice
    for _ in range(20):
        x = device.from_numpy(np.ones(1 << 16, np.float32))
        for _ in range(3):
            function(x, grid=1 << 10, **launch)
        encoder = gpu.create_command_encoder()
        encoder.copy_buffer_to_buffer(x.memory, 0, out, 0, 16)
        gpu.queue.submit([encoder.finish()])
        del x
    del device, function, launch
    gc.collect()
    taken = [buffer_of(gpu, [9] * (1 << 16)) for _ in range(4)]
    assert values_of(gpu, out) == [8] * 4
    assert all(values_of(gpu, each)[:4] == [9] * 4 for each in taken)


def test_a_call_with_buffers_of_the_caller_neither_waits_nor_copies(
    gpu: Any, twice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_webgpu import _copy, _driver
    from devmod_webgpu._device import WebGPUDevice

    device = devmod.device(gpu)
    x = buffer_of(gpu, [1] * 4)
    twice(x, grid=4)  # builds
    for owner, name in (
        (_driver, "wait"),
        (_copy, "write"),
        (_copy, "read"),
        (WebGPUDevice, "allocate"),
    ):
        monkeypatch.setattr(owner, name, lambda *_: pytest.fail("a wait or a copy"))
    twice(x, grid=4)
    twice.on(device)(x, grid=4)
    monkeypatch.undo()
    assert values_of(gpu, x) == [8] * 4


def test_a_plain_call_checks_each_buffer(
    device: Any, gpu: Any, twice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wgpu

    adopted = devmod.device(gpu)
    other = device._adapter.request_device_sync()
    kept = devmod.device(other)
    x = buffer_of(gpu, [1] * 4)
    array = adopted.from_numpy(np.ones(4, np.float32))
    for function_ in (twice, twice.on(adopted)):
        for _ in range(2):
            function_(x, grid=4)
        with monkeypatch.context() as patch:
            patch.setattr(KernelCall, "__init__", lambda *_, **__: pytest.fail("a checked call"))
            function_(x, grid=4)
            function_(array, grid=4)
    assert values_of(gpu, x) == [64] * 4
    assert array.numpy().tolist() == [4] * 4
    bound = twice.on(adopted)
    bound(x, grid=4)
    bound(x, grid=4)
    for bad, text in (
        (buffer_of(other, [1] * 4), f"is on {kept}"),
        (
            gpu.create_buffer(size=16, usage=wgpu.BufferUsage.COPY_DST),
            "without BufferUsage.STORAGE",
        ),
        (gpu.create_buffer(size=16, usage=x.usage, mapped_at_creation=True), "that is mapped"),
        (gpu.create_buffer(size=18, usage=x.usage), "expected a multiple of 4"),
    ):
        assert text in refusal(devmod.ArgumentError, bound, bad, grid=4)
    with adopted.stream():
        bound(x, grid=4)
    assert values_of(gpu, x) == [512] * 4


def test_a_gpu_device_without_a_device_is_refused(gpu: Any, twice: Any) -> None:
    x = buffer_of(gpu, [1] * 4)
    assert refusal(devmod.ArgumentError, twice, x, grid=4) == (
        "the webgpu function 'k': argument 1 'x' is a wgpu.GPUBuffer of a GPUDevice that no device of devmod is over; "
        "call devmod.device(gpu_device) first and keep the result, or create it on devmod.device('webgpu').gpu, or pass its content as a "
        "NumPy array"
    )
    device = devmod.device(gpu)
    twice(x, grid=4)
    assert values_of(device.gpu, x) == [2] * 4  # type: ignore[attr-defined]


def test_a_destroyed_gpu_device_is_an_error(gpu: Any, twice: Any) -> None:
    device = devmod.device(gpu)
    x = device.zeros(4, "float32")
    twice(x, grid=4)
    gpu.destroy()
    text = refusal(devmod.ArgumentError, devmod.device, gpu)
    assert text == "device: the wgpu.GPUDevice cannot be used: Parent device is lost"
    text = refusal(devmod.LaunchError, x.numpy)
    assert "is lost: its driver failed, was reset, or was closed" in text
    assert text.endswith("Call devmod.device with a new GPUDevice")


def use(gpu: Any, f: Any) -> list[Callable[[], object]]:
    """Use a device in each way that caches something. Return weak references."""
    device = devmod.device(gpu)
    x = device.from_numpy(np.ones(4, np.float32))
    host = np.ones(4, np.float32)
    for _ in range(3):
        f(x, grid=4)
        f(host, grid=4, stream=gpu.queue)
    f.bind(x, grid=4)()
    bound = f.on(device)
    for _ in range(3):
        bound(x, grid=4)
        bound(host, grid=4)
    device.synchronize()
    return [weakref.ref(device), weakref.ref(gpu)]


def test_nothing_is_kept_when_the_device_is_gone(device: Any, twice: Any) -> None:
    """The function lives on, and has nothing of the caller."""
    for _ in range(2):
        references = use(device._adapter.request_device_sync(), twice)
        gc.collect()
        assert [each() for each in references] == [None, None]


def test_the_gpu_device_works_when_the_device_is_gone(gpu: Any, twice: Any) -> None:
    use(gpu, twice)
    gc.collect()
    assert values_of(gpu, buffer_of(gpu, [1, 2])) == [1, 2]
    x = devmod.device(gpu).from_numpy(np.ones(4, np.float32))
    twice(x, grid=4)
    assert x.numpy().tolist() == [2] * 4


def test_threads_adopt_one_device_and_launch(gpu: Any, twice: Any) -> None:
    found = []
    start = threading.Barrier(3, timeout=120)

    def run() -> None:
        start.wait()
        device = devmod.device(gpu)
        x = device.from_numpy(np.ones(4, np.float32))
        for _ in range(10):
            twice(x, grid=4)
        found.append((device, x.numpy().tolist()))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({device for device, _ in found}) == 1
    assert [values for _, values in found] == [[1024] * 4] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_cannot_use_the_device(gpu: Any, twice: Any) -> None:
    device = devmod.device(gpu)
    x = device.zeros(4, "float32")
    twice(x, grid=4)
    launch = twice.bind(x, grid=4)
    child = os.fork()
    if not child:
        status = 1
        try:
            uses = (
                lambda: twice(x, grid=4),
                lambda: twice.on(device)(x, grid=4),
                launch,
                x.numpy,
                device.synchronize,
                lambda: devmod.device(gpu),
            )
            for each in uses:
                text = refusal(devmod.LaunchError, each)
                assert text.startswith("webgpu devices cannot be used in this process"), text
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    launch()
    assert x.numpy().tolist() == [0] * 4
