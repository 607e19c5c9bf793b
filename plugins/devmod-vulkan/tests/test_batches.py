"""Batches on a real device: one command buffer, and the results of the same launches without a
batch.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import pytest
from backend_checks import run_in_threads
from vulkan_kernels import (
    SLOW,
    TWICE,
    adder,
    blocked,
    free_command_buffers,
    is_done,
    is_memory_error,
    kernel,
)

import devmod

#: Its result depends on the order of the launches.
STEP = """
#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };
layout(push_constant) uniform P { uint factor; uint shift; };
layout(binding = 2) uniform U { uint n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = y[i] * factor + x[(i + shift) % n]; }
"""
INVERT = """
#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0, rgba8) readonly uniform image2D source;
layout(binding = 1, rgba8) writeonly uniform image2D result;
void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (all(lessThan(at, imageSize(source)))) imageStore(result, at, 1.0 - imageLoad(source, at));
}
"""
N = 300


class Steps:
    """Arrays and launches on a stream."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.stream = device.stream()
        self.step = kernel(STEP)
        self.x, self.y, self.z = (
            device.from_numpy(np.arange(N, dtype="uint32") + seed) for seed in (1, 7, 50)
        )
        self.prepared = self.step.bind(self.y, self.z, N, 3, 1, threads=N, stream=self.stream)
        self.results: list[Any] = []

    def launch(self) -> None:
        """Queue launches each of which uses the result of the one before."""
        self.step(self.x, self.y, N, 5, 2, threads=N, stream=self.stream)
        self.prepared()
        self.step(self.z, self.x, N, 7, 3, threads=N, stream=self.stream)
        self.prepared()

    def read(self) -> list[Any]:
        """Return the contents of the arrays and what the body has read."""
        self.stream.synchronize()
        return [*self.results, *(each.numpy().tolist() for each in (self.x, self.y, self.z))]


def copies(steps: Steps) -> None:
    """Copies within the device, from the host and to the host, between launches."""
    host = np.zeros(N, "uint32")
    steps.launch()
    steps.x.copy_from(steps.y, stream=steps.stream, wait=False)
    steps.launch()
    steps.x[64:128].copy_from(np.arange(64, dtype="uint32"), stream=steps.stream, wait=False)
    steps.launch()
    steps.z.copy_to(host, stream=steps.stream, wait=False)
    steps.launch()
    steps.stream.synchronize()
    steps.results.append(host.tolist())


def reads(steps: Steps) -> None:
    """Results that the host waits for, and a call with a host array."""
    with steps.stream:
        steps.launch()
        steps.results.append(steps.x.numpy().tolist())
        steps.launch()
        host = np.arange(N, dtype="uint32")
        steps.step(steps.z, host, N, 1, 0, threads=N)
        steps.results.append(host.tolist())
        steps.launch()


def arrays(steps: Steps) -> None:
    """Arrays that the body makes, and frees before the launches have run."""
    for number in range(20):
        array = steps.device.from_numpy(np.full(N, number, "uint32"))
        steps.step(array, steps.y, N, 3, 0, threads=N, stream=steps.stream)
        steps.step(
            steps.device.zeros(N, "uint32"), steps.y, N, 1, 0, threads=N, stream=steps.stream
        )
        del array
        gc.collect()


def images(steps: Steps) -> None:
    """Launches on images."""
    invert, device = kernel(INVERT), steps.device
    picture = np.arange(6 * 5 * 4, dtype="uint8").reshape(6, 5, 4)
    with steps.stream:
        source, result = device.image_from_numpy(picture), device.image((5, 6), "rgba8unorm")
        invert(source, result, threads=(5, 6))
        steps.launch()
        invert(result, source, threads=(5, 6))
        invert(source, result, threads=(5, 6))
        steps.results.append(result.numpy().tolist())


def streams(steps: Steps) -> None:
    """Launches on two streams that wait for each other."""
    other = steps.device.stream()
    for _ in range(3):
        steps.launch()
        other.wait(steps.stream.record())
        steps.step(steps.y, steps.x, N, 9, 4, threads=N, stream=other)
        steps.stream.wait(other.record())
    steps.launch()


def nested(steps: Steps) -> None:
    """Batches within a batch, and times."""
    steps.launch()
    with steps.stream.batch(), steps.stream.batch():
        steps.launch()
    steps.launch()
    assert steps.prepared.time() > 0
    first = steps.stream.record()
    steps.launch()
    assert steps.stream.record().elapsed(first) > 0


def launches(steps: Steps) -> None:
    """Launches alone."""
    for _ in range(10):
        steps.launch()


@pytest.mark.row("R34")
@pytest.mark.parametrize("body", [launches, copies, reads, arrays, images, streams, nested])
def test_a_batch_has_the_results_of_its_body_without_a_batch(
    device: Any, body: Callable[[Steps], None]
) -> None:
    results = []
    for is_batch in (False, True):
        steps = Steps(device)
        with steps.stream.batch() if is_batch else nullcontext():
            body(steps)
        results.append(steps.read())
    assert results[0] == results[1]


# -- what the driver gets


class Driver:
    """The driver's calls on a stream of its own, by name."""

    def __init__(self, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.arguments: dict[str, list[Any]] = {}
        calls = device.logical.calls

        def observe(name: str) -> None:
            real = getattr(calls, name)

            def call(*arguments: Any) -> Any:
                self.names.append(name.removeprefix("vk").removeprefix("Cmd"))
                self.arguments.setdefault(name, []).append(arguments)
                return real(*arguments)

            monkeypatch.setitem(vars(calls), name, call)

        commands = (
            "PipelineBarrier",
            "BindPipeline",
            "BindDescriptorSets",
            "PushConstants",
            "Dispatch",
            "CopyBuffer",
        )
        others = ("UpdateDescriptorSets", "BeginCommandBuffer", "EndCommandBuffer", "QueueSubmit")
        for name in (*(f"vkCmd{each}" for each in commands), *(f"vk{each}" for each in others)):
            observe(name)
        self.stream = device.stream()  # it looks vkQueueSubmit up
        self.clear()

    def clear(self) -> None:
        """Forget the calls so far."""
        self.names.clear()
        self.arguments.clear()

    def take(self) -> list[str]:
        """Remove and return the names."""
        taken, self.names[:] = self.names[:], []
        return taken


LAUNCH = ["PipelineBarrier", "BindPipeline", "BindDescriptorSets", "PushConstants", "Dispatch"]
RECORD = ["BeginCommandBuffer", *LAUNCH, "PipelineBarrier", "EndCommandBuffer"]


def test_a_batch_is_one_command_buffer_with_a_barrier_before_each_command(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No CPU driver needs the barriers."""
    from devmod_vulkan._driver import vk

    a, b, c = (device.zeros(64, "float32") for _ in range(3))
    add, driver = adder()["add"], Driver(device, monkeypatch)
    prepared = add.bind(a, b, c, 64, grid=1, stream=driver.stream)
    assert driver.take() == ["UpdateDescriptorSets", *RECORD]
    with driver.stream.batch():
        prepared()
        add(a, b, c, 64, grid=1, stream=driver.stream)
        device.copy(c.memory, a.memory, 256, driver.stream)
        prepared()
        assert driver.take() == ["UpdateDescriptorSets"]
    assert driver.take() == [
        "BeginCommandBuffer",
        *LAUNCH * 2,
        "PipelineBarrier",
        "CopyBuffer",
        *LAUNCH,
        "PipelineBarrier",
        "EndCommandBuffer",
        "QueueSubmit",
    ]
    shader, copy, host = (
        vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
        vk.VK_PIPELINE_STAGE_TRANSFER_BIT,
        vk.VK_PIPELINE_STAGE_HOST_BIT,
    )
    writes = vk.VK_ACCESS_SHADER_WRITE_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
    both = writes | vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_TRANSFER_READ_BIT
    before = (shader | copy, shader | copy, writes, both | vk.VK_ACCESS_UNIFORM_READ_BIT)
    last = (shader | copy, shader | copy | host, writes, both | vk.VK_ACCESS_HOST_READ_BIT)
    barriers = driver.arguments["vkCmdPipelineBarrier"][2:]  # those of the batch
    found = [
        (source, target, memory.srcAccessMask, memory.dstAccessMask)
        for _, source, target, _, _, memory, *_ in barriers
    ]
    assert found == [before] * 4 + [last]


def test_a_batch_is_one_submission(device: Any) -> None:
    f = kernel(SLOW)
    stream = device.stream()
    x = device.from_numpy(np.zeros(1, "uint32"))
    launch = f.bind(x, 1, grid=1, stream=stream)
    seen = []
    real = stream._submit

    def submit(queue: Any, count: int, info: Any, fence: Any) -> int:
        seen.append(info.commandBufferCount)
        return int(real(queue, count, info, fence))

    stream._submit = submit
    with stream.batch():
        for _ in range(30):
            launch()
        with stream.batch():
            launch()
        f(x, 1, grid=1, stream=stream)
        assert seen == []
    stream.synchronize()
    assert seen == [1]
    with stream.batch():
        launch()
        event = stream.record()  # sends what is there
        launch()
        event.synchronize()
    with stream.batch():
        launch()
        stream.synchronize()
        assert x.numpy()[0]
    assert seen == [1, 2, 1, 1]
    wanted, value = 0, 0
    for _ in range(35):
        value = (value * 1664525 + 1013904223) % 2**32 ^ (value >> 7)
        wanted = value
    assert x.numpy()[0] == wanted


def test_a_launch_outside_of_a_batch_makes_no_more_calls(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = (device.zeros(64, "float32") for _ in range(3))
    add, driver = adder()["add"], Driver(device, monkeypatch)
    with driver.stream.batch():
        add(a, b, c, 64, grid=1, stream=driver.stream)
    driver.stream.synchronize()
    prepared = add.bind(a, b, c, 64, grid=1, stream=driver.stream)
    prepared.time()  # the first one on the device creates the timestamps
    driver.take()
    for _ in range(3):
        add(a, b, c, 64, grid=1, stream=driver.stream)
        assert driver.take() == ["UpdateDescriptorSets", *RECORD, "QueueSubmit"]
        prepared()
        assert driver.take() == ["QueueSubmit"]
    with driver.stream.batch():  # a prepared launch alone has its command buffer
        prepared()
    assert driver.take() == ["QueueSubmit"]
    assert prepared.time() > 0
    assert driver.take()[: len(RECORD) + 2] == ["UpdateDescriptorSets", *RECORD, "QueueSubmit"]


def test_a_batch_of_a_thousand_launches(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch has arguments of its own."""
    step, driver = kernel(STEP), Driver(device, monkeypatch)
    sources = device.from_numpy(np.arange(1000 * 64, dtype="uint32"))
    results = device.zeros(1000 * 64, "uint32")
    driver.clear()
    for _ in range(3):
        with driver.stream.batch():
            for number in range(1000):
                part = slice(64 * number, 64 * number + 64)
                step(sources[part], results[part], 64, number, 0, grid=1, stream=driver.stream)
        assert driver.take().count("QueueSubmit") == 1
        driver.stream.synchronize()
        assert not driver.stream.pending
    begun = [handle for handle, _ in driver.arguments["vkBeginCommandBuffer"]]
    assert len(begun) == 3  # one for each batch
    assert {*begun} <= free_command_buffers(device)
    values, factors = (
        np.arange(1000 * 64, dtype="uint32"),
        np.repeat(np.arange(1000, dtype="uint32"), 64),
    )
    expected = np.zeros(1000 * 64, "uint32")
    for _ in range(3):
        expected = expected * factors + values
    np.testing.assert_array_equal(results.numpy(), expected)


def test_what_a_batch_uses_is_not_used_again_before_it_is_done(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice, driver = kernel(TWICE), Driver(device, monkeypatch)
    x, others = (
        device.from_numpy(np.ones(4, "float32")),
        [device.zeros(4, "float32") for _ in range(4)],
    )
    driver.clear()
    with blocked(driver.stream):
        for _ in range(5):
            with driver.stream.batch():
                for each in (x, *others):
                    twice(each, grid=1, stream=driver.stream)
            gc.collect()
        handles = [handle for handle, _ in driver.arguments["vkBeginCommandBuffer"]]
        sets = [
            writes[0].dstSet for _, _, writes, _, _ in driver.arguments["vkUpdateDescriptorSets"]
        ]
        assert (len({*handles}), len({*sets})) == (5, 25)
    driver.stream.synchronize()
    assert x.numpy().tolist() == [32] * 4


def test_batches_release_what_they_used_without_a_wait(device: Any) -> None:
    twice, stream, x = kernel(TWICE), device.stream(), device.zeros(4, "float32")
    last: Any = None
    for _ in range(20):
        for _ in range(32):
            with stream.batch():
                twice(x, grid=1, stream=stream)
                twice(x, grid=1, stream=stream)
        last = stream.record()
        while not is_done(last):  # devmod itself waits for none of them
            time.sleep(0.001)
    assert len(stream.pending) < 300


# -- exceptions, interrupts and threads


def test_an_exception_in_a_batch(device: Any) -> None:
    """The launches before it run, and the next batch is not affected."""
    twice, stream, x = kernel(TWICE), device.stream(), device.from_numpy(np.ones(4, "float32"))
    with pytest.raises(ZeroDivisionError), stream.batch():  # noqa: PT012 - the launches before the exception run
        twice(x, grid=1, stream=stream)
        with suppress(devmod.ArgumentError):
            twice(x, x, grid=1, stream=stream)
        twice(x, grid=1, stream=stream)
        twice(x, grid=1 // 0, stream=stream)
    stream.synchronize()
    assert x.numpy().tolist() == [4] * 4
    with stream.batch():
        twice(x, grid=1, stream=stream)
    stream.synchronize()
    assert x.numpy().tolist() == [8] * 4


def test_an_interrupt_before_a_submission_keeps_the_batch(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = kernel(TWICE)
    stream = device.stream()
    x = device.from_numpy(np.ones(4, "float32"))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), stream.batch():  # noqa: PT012 - the end of the batch raises
        f(x, grid=1, stream=stream)
        patch.setattr(stream, "submission", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    f(x, grid=1, stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(x.numpy(), np.full(4, 4.0))


@pytest.mark.parametrize(
    "name", ["vkBeginCommandBuffer", "vkCmdPipelineBarrier", "vkCmdDispatch", "vkEndCommandBuffer"]
)
def test_an_interrupt_while_a_batch_is_recorded(
    device: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its launches stay gathered, and run once.

    The interrupted command buffer is not used again.
    """
    twice, driver, x = (
        kernel(TWICE),
        Driver(device, monkeypatch),
        device.from_numpy(np.ones(4, "float32")),
    )
    prepared = twice.bind(x, grid=1, stream=driver.stream)
    real, calls = getattr(device.logical.calls, name), device.logical.calls
    interrupted = []

    def interrupt(*arguments: Any) -> Any:
        real(*arguments)
        interrupted.append(arguments[0])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), driver.stream.batch():  # noqa: PT012 - its end raises
        twice(x, grid=1, stream=driver.stream)
        prepared()
        patch.setitem(vars(calls), name, interrupt)
    driver.clear()
    prepared()
    driver.stream.synchronize()
    assert x.numpy().tolist() == [8] * 4
    assert len(interrupted) == 1
    assert interrupted[0] not in [handle for handle, _ in driver.arguments["vkBeginCommandBuffer"]]


def test_a_batch_that_the_driver_refuses(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launches do not run, and do not fail again with the next one."""
    twice, stream, x = kernel(TWICE), device.stream(), device.from_numpy(np.ones(4, "float32"))
    with (  # noqa: PT012 - its end raises
        monkeypatch.context() as patch,
        pytest.raises(devmod.LaunchError) as caught,
        stream.batch(),
    ):
        patch.setitem(vars(device.logical.calls), "vkEndCommandBuffer", lambda _: -2)
        twice(x, grid=1, stream=stream)
        twice(x, grid=1, stream=stream)
    start = f"{device} has too little free memory: {device} cannot record commands (VK_ERROR_OUT_OF_DEVICE_MEMORY)"
    assert is_memory_error(str(caught.value), start, device), str(caught.value)
    twice(x, grid=1, stream=stream)
    stream.synchronize()
    assert x.numpy().tolist() == [2] * 4


def test_a_batch_that_ends_during_a_call_of_another_thread(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call has seen the batch, and submits its launch itself. The test ends the batch at a
    moment of the call.
    """
    twice, stream, x = kernel(TWICE), device.stream(), device.from_numpy(np.ones(4, "float32"))
    calls, batch = device.logical.calls, stream.batch()
    real = calls.vkUpdateDescriptorSets

    def update(*arguments: Any) -> None:
        real(*arguments)
        batch.__exit__(None, None, None)

    batch.__enter__()
    with monkeypatch.context() as patch:
        patch.setitem(vars(calls), "vkUpdateDescriptorSets", update)
        twice(x, grid=1, stream=stream)
    twice(x, grid=1, stream=stream)
    stream.synchronize()
    assert x.numpy().tolist() == [4] * 4


@pytest.mark.row("R32")
@pytest.mark.parametrize("is_shared", [False, True])
def test_threads_with_batches(device: Any, is_shared: bool) -> None:
    """Two threads on two streams, and on one stream, where the launches of one may join the batch
    of the other.
    """
    slow, twice, shared = kernel(SLOW), kernel(TWICE), device.stream()

    def work(number: int) -> tuple[list[float], int]:
        stream = shared if is_shared else device.stream()
        x, busy = device.from_numpy(np.full(4, number + 1, "float32")), device.zeros(1, "uint32")
        prepared = twice.bind(x, grid=1, stream=stream)
        for turn in range(50):
            with stream.batch() if number == 0 or turn % 2 else nullcontext():
                for _ in range(5):
                    prepared()
                    slow(busy, 3, grid=1, stream=stream)
                    twice(x, grid=1, stream=stream)
            if turn % 10 == 9:
                stream.synchronize()
                x.copy_from(x.numpy() / np.float32(2.0**100))
        stream.synchronize()
        return x.numpy().tolist(), int(busy.numpy()[0])

    first, second = run_in_threads(work, range(2))
    assert (first[0], second[0]) == ([1] * 4, [2] * 4)
    assert first[1] == second[1]


@pytest.mark.parametrize("in_batch", [False, True])
def test_a_prepared_sequence_is_recorded_once(device: Any, in_batch: bool) -> None:
    expected, steps = Steps(device), Steps(device)

    def make(stream: Any) -> list[Callable[[], object]]:
        first = steps.step.bind(steps.x, steps.y, N, 5, 2, threads=N, stream=stream)
        second = steps.step.bind(steps.y, steps.z, N, 3, 1, threads=N, stream=stream)
        return [first, lambda: device.start_clear(steps.x.memory, 400, stream), second, first]

    queue = steps.stream.prepare(make)
    for _ in range(3):
        expected.step(expected.x, expected.y, N, 5, 2, threads=N, stream=expected.stream)
        device.start_clear(expected.x.memory, 400, expected.stream)
        expected.prepared()
        expected.step(expected.x, expected.y, N, 5, 2, threads=N, stream=expected.stream)
        expected.launch()
        with steps.stream.batch() if in_batch else nullcontext():
            queue()
            steps.launch()
    gc.collect()
    queue()
    queue()  # before the one before is done
    for _ in range(2):
        expected.step(expected.x, expected.y, N, 5, 2, threads=N, stream=expected.stream)
        device.start_clear(expected.x.memory, 400, expected.stream)
        expected.prepared()
        expected.step(expected.x, expected.y, N, 5, 2, threads=N, stream=expected.stream)
    assert steps.read() == expected.read()
