"""Batches: the launches of a body are one submission, with the results that they have without a
batch.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from typing import Any

import numpy as np
import pytest
from backend_checks import run_python
from webgpu_shaders import ALONE, function

import devmod

STEP = "@group(0) @binding(1) var<uniform> n: u32;"


@pytest.fixture
def step() -> Any:
    """A kernel whose order and whose scalar the result shows: x = 3 x + n."""
    return function(STEP, "x[id.x] = 3u * x[id.x] + n;")


@pytest.fixture
def submits(device: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of command buffers of each submission."""
    seen: list[int] = []
    queue = type(device.gpu.queue)
    real = queue.submit

    def submit(self: Any, commands: Any) -> None:
        seen.append(len(commands))
        real(self, commands)

    monkeypatch.setattr(queue, "submit", submit)
    return seen


def expected(numbers: Any, value: int = 0) -> int:
    """What the kernel leaves after launches with such scalars."""
    for number in numbers:
        value = (3 * value + number) % 2**32
    return value


def test_a_batch_is_one_submission(step: Any, device: Any, submits: list[int]) -> None:
    stream = device.stream()
    x = device.zeros(1, "uint32")
    launch = step.bind(x, 5, grid=1, stream=stream)
    with stream.batch():
        for number in range(10):
            step(x, number, grid=1, stream=stream)
            launch()
        with stream.batch():
            launch()
        step(x, 7, grid=1, stream=stream)
        assert submits == []
    assert submits == [1]
    numbers = [each for number in range(10) for each in (number, 5)] + [5, 7]
    assert x.numpy() == expected(numbers)
    del submits[:]
    with stream.batch():
        pass
    assert submits == []
    launch()
    step(x, 1, grid=1, stream=stream)
    assert submits == [1, 1]


def test_each_of_many_launches_has_its_scalars(
    step: Any, device: Any, submits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmod_webgpu._driver._MOST_TOGETHER", 102)
    stream = device.stream()
    x = device.zeros(1, "uint32")
    for first in (0, 100, 0):  # later batches reuse the uniform buffers
        numbers = range(first, first + 100)
        before = int(x.numpy()[0])
        del submits[:]
        with stream.batch():
            for number in numbers:
                step(x, number, grid=1, stream=stream)
        assert submits == [1]
        assert x.numpy() == expected(numbers, before)
    x = device.zeros(1, "uint32")
    del submits[:]
    with stream.batch():
        for number in range(250):
            step(x, number, grid=1, stream=stream)
    assert submits == [1] * 3  # a part has at most 102
    assert x.numpy() == expected(range(250))


def test_a_repeated_batch_writes_and_allocates_nothing(
    step: Any, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for owner, name in (
        (type(device.gpu.queue), "write_buffer"),
        (type(device.gpu), "create_buffer"),
    ):
        real = getattr(owner, name)

        def call(*arguments: Any, real: Any = real, name: str = name, **keywords: Any) -> Any:
            calls.append(name)
            return real(*arguments, **keywords)

        monkeypatch.setattr(owner, name, call)
    x = device.zeros(1, "uint32")
    counts = []
    for first in (0, 0, 0, 50):
        del calls[:]
        with device.default_stream.batch():
            for number in range(first, first + 50):
                step(x, number, grid=1)
        counts.append((calls.count("create_buffer"), calls.count("write_buffer")))
    assert counts == [(50, 50), (0, 0), (0, 0), (0, 50)]


def test_what_is_not_a_launch_keeps_its_place(step: Any, device: Any, submits: list[int]) -> None:
    stream = device.stream()
    x, y = device.zeros(1, "uint32"), device.zeros(1, "uint32")
    host = np.zeros(1, "uint32")
    with stream, stream.batch():
        step(x, 1, grid=1)
        y.copy_from(x)  # on the device
        step(x, 2, grid=1)
        step(y, 3, grid=1)
        assert x.numpy() == 5
        step(x, 4, grid=1)
        x.copy_from(np.full(1, 10, "uint32"))
        step(x, 5, grid=1)
        event = x.copy_to(host, wait=False)
        step(x, 6, grid=1)
        event.synchronize()
        assert host == 35
        step(x, 7, grid=1)
        array = np.full(1, 100, "uint32")
        step(array, 8, grid=1)
        assert array == 308
        launch = step.bind(x, 9, grid=1)  # writes its scalars, and queues nothing
        launch()
        assert launch.time() > 0
        step(x, 1, grid=1)
        del submits[:]
        first = stream.record()
        assert submits == [1] * (2 if device.timed else 1)
        step(y, 2, grid=1)
        device.synchronize()
        first.synchronize()
        step(y, 3, grid=1)
    assert x.numpy() == expected([6, 7, 9, 9, 1], 35)
    assert y.numpy() == expected([3, 2, 3], 1)


def test_without_timestamps_an_event_submits_what_is_gathered(
    step: Any, device: Any, submits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "features", device.features - {"timestamp-query"})
    x = device.zeros(1, "uint32")
    with device.default_stream.batch():
        step(x, 1, grid=1)
        device.default_stream.record()
        assert submits == [1]
    assert x.numpy() == 1


def test_launches_of_other_streams_keep_their_place(
    step: Any, device: Any, submits: list[int]
) -> None:
    first, second = device.stream(), device.stream()
    x = device.zeros(1, "uint32")
    with first.batch():
        step(x, 1, grid=1, stream=first)
        step(x, 2, grid=1, stream=second)  # not in a batch: submitted at once, after the first
        assert submits == [1, 1]
        step(x, 3, grid=1, stream=first)
        with second.batch():
            step(x, 4, grid=1, stream=second)
            step(x, 5, grid=1, stream=first)
            assert submits == [1, 1]
        assert submits == [1, 1, 1]
        step(x, 6, grid=1, stream=first)
    assert x.numpy() == expected(range(1, 7))


def test_pipelines_groups_and_views_of_one_pass(device: Any) -> None:
    """A bind group that an earlier launch of the pass has set does not matter to a later kernel
    without it.
    """
    two = function(
        "@group(1) @binding(1) var<storage, read> y: array<u32>;", "x[id.x] = 2u * y[id.x];"
    )
    one = function("", "x[id.x] = x[id.x] + 1u;")
    x, y = device.zeros(128, "uint32"), device.from_numpy(np.arange(128, dtype="uint32"))
    with device.default_stream.batch():
        for _ in range(3):
            two(x, y, grid=128)
            one(y, grid=128)
            two(y, x, grid=128)
            one(y[64:], grid=64)
    values = np.arange(128, dtype="uint32")
    for _ in range(3):
        values = 4 * values
        values[64:] += 1
    np.testing.assert_array_equal(y.numpy(), values)


def test_memory_that_the_body_frees(step: Any, device: Any) -> None:
    copy = function(
        "@group(0) @binding(1) var<storage, read> y: array<u32>;", "x[id.x] = x[id.x] + y[id.x];"
    )
    x = device.zeros(1024, "uint32")
    with device.default_stream.batch():
        for number in range(10):
            y = device.zeros(1024, "uint32")
            step(y, number, grid=1024)
            copy(x, y, grid=1024)
            del y
            gc.collect()
    np.testing.assert_array_equal(x.numpy(), np.full(1024, sum(range(10))))


def test_images_are_launched_in_a_batch(device: Any, submits: list[int]) -> None:
    store = function(
        "@group(0) @binding(1) var image: texture_storage_2d<r32uint, write>;",
        "textureStore(image, vec2u(0, 0), vec4u(x[0], 0, 0, 0));",
    )
    load = function(
        "@group(0) @binding(1) var image: texture_2d<u32>;",
        "x[0] = 3u * textureLoad(image, vec2u(0, 0), 0).x + 1u;",
    )
    x, image = device.from_numpy(np.full(1, 7, "uint32")), device.image((1, 1), "r32uint")
    with device.default_stream.batch():
        for _ in range(3):
            store(x, image, grid=1)
            load(x, image, grid=1)
        assert submits == []
    assert submits == [1]
    assert x.numpy() == expected([1, 1, 1], 7)
    with device.default_stream.batch():
        store(x, image, grid=1)
        assert image.numpy() == expected([1, 1, 1], 7)
        load(x, image, grid=1)
        image.copy_from(np.full((1, 1), 5, "uint32"))
        load(x, image, grid=1)
    assert x.numpy() == 16


def test_buffers_of_wgpu_may_be_destroyed_in_the_body(device: Any) -> None:
    """Submitting a launch with a destroyed buffer would end the process."""
    program = """
import numpy as np, wgpu, devmod
from webgpu_shaders import function
device = devmod.device("webgpu")
add = function("@group(0) @binding(1) var<storage, read> y: array<u32>;", "x[id.x] = x[id.x] + y[id.x];")
x = device.from_numpy(np.ones(4, "uint32"))
buffer = device.gpu.create_buffer_with_data(data=np.arange(4, dtype="uint32"), usage=wgpu.BufferUsage.STORAGE)
with device.default_stream.batch():
    add(x, device.from_numpy(np.zeros(4, "uint32")), grid=4)
    launch = add.bind(x, buffer, grid=4)
    launch()
    add(x, buffer, grid=4)
    buffer.destroy()
    add(x, device.from_numpy(np.ones(4, "uint32")), grid=4)
print(x.numpy())
"""
    assert run_python(program, "-W", "error", **ALONE) == "[2 4 6 8]\n"


def test_an_exception_in_the_body(step: Any, device: Any, submits: list[int]) -> None:
    stream = device.stream()
    x = device.zeros(1, "uint32")
    with contextlib.suppress(ZeroDivisionError), stream.batch():
        step(x, 1, grid=1, stream=stream)
        step(x, 1 // 0, grid=1, stream=stream)
    assert submits == [1]
    step(x, 2, grid=1, stream=stream)
    assert submits == [1, 1]
    with pytest.raises(devmod.ArgumentError), stream.batch():  # noqa: PT012 - the first launch runs
        step(x, 3, grid=1, stream=stream)
        step(x, "no number", grid=1, stream=stream)
    assert x.numpy() == expected([1, 2, 3])


@pytest.mark.row("R37")
@pytest.mark.parametrize("place", ["before", "within"])
def test_an_interrupt_of_the_end_loses_no_launch(
    place: str, step: Any, device: Any, submits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """KeyboardInterrupt at the end of the body, and while another thread submits."""
    from devmod_webgpu import _driver

    stream = device.stream()
    x = device.zeros(1, "uint32")
    real = _driver.end_submissions

    def interrupted() -> None:
        if place == "within":
            real()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_driver, "end_submissions", interrupted)
        with pytest.raises(KeyboardInterrupt), stream.batch():
            step(x, 1, grid=1, stream=stream)
    assert submits == [1] * (place == "within")
    step(x, 2, grid=1, stream=stream)
    assert submits == [1, 1]
    assert x.numpy() == expected([1, 2])


FAILED = """
import logging, numpy as np, devmod, wgpu
from webgpu_shaders import function
device = devmod.device("webgpu")
logging.getLogger("wgpu").setLevel(logging.CRITICAL)
text = "@group(0) @binding(0) var<storage, read_write> x: array<u32>; @compute @workgroup_size(1) fn NAME() { x[0] = 3 * x[0] + 1; }"
first, second = (devmod.compile(text.replace("NAME", name), "webgpu")[name] for name in ("first", "second"))
x = device.zeros(1, "uint32")
def attempt():
    for end in (lambda: None, device.synchronize, x.numpy, device.default_stream.record, lambda: x.copy_from(np.ones(1, "uint32"))):
        try:
            with device.default_stream.batch():
                for each in launches: each()
                end()
        except devmod.LaunchError as error: print(str(error).partition(": ")[0], ":", str(error.__cause__).splitlines()[0][:8])
        else: print("no error")
# The driver fails in the third launch.
launches = [first.bind(x, grid=1), first.bind(x, grid=1), second.bind(x, grid=1), first.bind(x, grid=1)]
run = type(device.gpu.create_command_encoder().begin_compute_pass())
real = run.set_pipeline
def set_pipeline(self, pipeline):
    if pipeline is not first_pipeline: raise wgpu.GPUValidationError("planted")
    real(self, pipeline)
seen = []
run.set_pipeline = lambda self, pipeline: (seen.append(pipeline), real(self, pipeline))[1]
first(x, grid=1)
first_pipeline = seen[0]
x.copy_from(np.zeros(1, "uint32"))
run.set_pipeline = set_pipeline
attempt()
run.set_pipeline = real
print(x.numpy())
# The device is lost.
launches = [first.bind(x, grid=1), second.bind(x, grid=1)]
device.gpu.destroy()
attempt()
"""


def test_an_error_of_the_driver_names_the_function(device: Any) -> None:
    lines = run_python(FAILED, **ALONE).splitlines()
    # As without a batch, the launches before the failed one run, and those after it do not.
    assert lines[:6] == ["a launch of the webgpu function 'second' failed : planted"] * 5 + [
        f"[{expected([1] * 10)}]"
    ]
    assert [line.partition(" :")[0] for line in lines[6:]] == [
        "a launch of the webgpu function 'first' failed"
    ] * 5


def test_two_threads_with_a_stream_each(step: Any, device: Any) -> None:
    arrays = [device.zeros(1, "uint32") for _ in range(2)]
    problems: list[BaseException] = []

    def use(x: Any, stream: Any) -> None:
        try:
            for first in range(0, 1000, 50):
                with stream.batch():
                    for number in range(first, first + 50):
                        step(x, number, grid=1, stream=stream)
                if not first % 200:
                    assert x.numpy() == expected(range(first + 50))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=use, args=(x, device.stream())) for x in arrays]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert problems == []
    assert [int(x.numpy()[0]) for x in arrays] == [expected(range(1000))] * 2


FORKED = """
import os, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of forks where there are threads
import devmod
from webgpu_shaders import function
device = devmod.device("webgpu")
step, x = function("", "x[0] = 3u * x[0] + 1u;"), device.zeros(1, "uint32")
try:
    with device.default_stream.batch():
        step(x, grid=1)
        child = os.fork()
except devmod.LaunchError as error:
    print(str(error)[:51], flush=True)
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
print(x.numpy())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_batch_in_a_forked_process(device: Any) -> None:
    output = run_python(FORKED, **ALONE)
    assert output == "webgpu devices cannot be used in this process: it w\n[1]\n"


RELEASED = """
import os, sys, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of forks where there are threads
import devmod
from webgpu_shaders import function
device = devmod.device("webgpu")
step, x = function("", "x[0] = 3u;"), device.zeros(1, "uint32")
step(x, grid=1)
names = []
def watch(frame, event, argument):
    if event == "call" and frame.f_globals.get("__name__", "").startswith("wgpu."):
        names.append(frame.f_code.co_name)
def delete():
    global step, x, device
    del step, x, device
child = os.fork()
if not child:
    sys.setprofile(watch)
    delete()
    sys.setprofile(None)
    print(names, flush=True)
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
print(x.numpy())
sys.setprofile(watch)
delete()
sys.setprofile(None)
print("__del__" in names)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_process_releases_nothing_of_its_parent(device: Any) -> None:
    """lavapipe waits for a lock that a thread of the parent may have held."""
    assert run_python(RELEASED, **ALONE) == "[]\n[3]\nTrue\n"
