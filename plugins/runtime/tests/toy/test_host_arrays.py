"""Host arrays that kernels use where they are, and those that share memory."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from itertools import count
from math import inf
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from numpy.lib.stride_tricks import as_strided
from toy_backend import DEVICES, ToyDevice, floats, fresh_devices, module

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod_runtime._device.in_place import InPlace


@pytest.fixture
def device() -> Iterator[ToyDevice]:
    """A device that uses host arrays of each size where they are."""
    with fresh_devices():
        DEVICES[0].in_place_from = 1
        yield DEVICES[0]


def function(names: str, written: str, run: Any) -> Any:
    """Return a function of arrays of float32, named by letters, some of which it writes."""
    params = [Param(each, "buffer", "float32", "rw" if each in written else "r") for each in names]
    info = FunctionInfo(
        "f", ["handle"] * len(names), ["blockIdx.x", "threadIdx.x"], (), Interface(params)
    )
    return module({"f": info}, {"f": run})["f"]


@pytest.mark.parametrize("times", [1, 3])
def test_each_array_that_a_kernel_writes_has_its_results(device: ToyDevice, times: int) -> None:
    def run(_: object, *memories: Any) -> None:
        for number, each in enumerate(memories):
            floats(each)[:] += number

    arrays = [np.zeros(16, "float32") for _ in range(3)]
    f = function("xyz", "xyz", run)
    for _ in range(times):
        f(*arrays, grid=1, block=1)
    assert [set(each.tolist()) for each in arrays] == [{0}, {times}, {2 * times}]
    assert (device.in_place, device.allocated) == ([64] * 3 * times, [])


@pytest.mark.parametrize("times", [1, 3])
def test_a_device_that_copies_all_uses_no_array_where_it_is(
    device: ToyDevice, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DEVMOD_IN_PLACE=0 sets it for all devices."""
    monkeypatch.setattr(devmod.Device, "copies_all", True)
    y = np.zeros(16, "float32")
    f = function("y", "y", lambda _, memory: floats(memory).__iadd__(1))
    for _ in range(times):
        f(y, grid=1, block=1)
    assert y.tolist() == [times] * 16
    assert (device.in_place, device.allocated) == ([], [64] * times)


@pytest.mark.parametrize("least", [1, inf])
@pytest.mark.parametrize("same", ["xy", "xz", "yz"])
def test_one_array_for_two_arguments_has_the_results_of_both(
    device: ToyDevice, same: str, least: float
) -> None:
    """In a repeated call too, whose first one had an array for each."""

    def run(_: object, *memories: Any) -> None:
        for number, each in enumerate(memories):
            floats(each)[number] += 10 + number

    device.in_place_from = least
    f = function("xyz", "xyz", run)
    for _ in range(2):
        f(*[np.zeros(4, "float32") for _ in "xyz"], grid=1, block=1)
    arrays = {each: np.zeros(4, "float32") for each in "xyz"}
    arrays[same[0]] = arrays[same[1]]
    for _ in range(2):
        f(*arrays.values(), grid=1, block=1)
    expected = {"x": [20, 0, 0, 0], "y": [0, 22, 0, 0], "z": [0, 0, 24, 0]}
    both = np.add(*[expected[each] for each in same]).tolist()
    expected |= dict.fromkeys(same, both)
    assert {name: each.tolist() for name, each in arrays.items()} == expected


def test_a_call_whose_arrays_cannot_be_used_in_place_ends_after_its_kernel(
    device: ToyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No copy back waits for a kernel that writes nothing."""
    monkeypatch.setattr(device, "use_in_place", lambda *_, **__: None)
    f = function("x", "", lambda *_: None)
    x = np.zeros(16, "float32")
    for _ in range(3):
        f(x, grid=1, block=1)
    device.default_stream.fault = "it is hot"
    with pytest.raises(devmod.LaunchError, match="it is hot"):
        f(x, grid=1, block=1)
    assert device.allocated == [64] * 4


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0), (0, 63), (63, 0), (0, 0)])
def test_of_arrays_that_overlap_one_is_copied(device: ToyDevice, first: int, second: int) -> None:
    """At either end, by one element or by all but one. The same elements are one array."""
    memory, z = np.arange(127, dtype="float32"), np.zeros(64, "float32")
    x, y = memory[first:][:64], memory[second:][:64]

    def run(_: object, *memories: Any) -> None:
        one, two, result = map(floats, memories)
        result[:] = one + two

    function("xyz", "z", run)(x, y, z, grid=1, block=1)
    assert (z == x + y).all()
    assert len(device.in_place) == 2


def test_arrays_side_by_side_are_not_copied(device: ToyDevice) -> None:
    memory = np.zeros(48, "float32")
    function("xyz", "xyz", lambda *_: None)(
        memory[16:32], memory[:16], memory[32:], grid=1, block=1
    )
    assert (device.in_place, device.allocated) == ([64, 64, 64], [])


def take_in_two_threads(device: ToyDevice, stop: int) -> list[Any]:
    """Return what two threads get that take one array. The second one comes at a line of the first
    one's way, counted from 1; nothing is returned if there is no such line.
    """
    data = memoryview(bytearray(64))
    first, second = InPlace(device.stream()), InPlace(device.stream())
    results: list[Any] = []
    other = threading.Thread(target=lambda: results.append(second.take(data, written=True)))
    lines = count(1)

    def trace(frame: Any, event: str, _: object) -> Any:
        if frame.f_code is not InPlace.take.__code__:
            return None
        if event == "line" and next(lines) == stop:
            other.start()
            other.join(0.2)  # or it waits for the first thread
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    results.append(first.take(data, written=True))
    sys.settrace(before)
    if other.ident is None:
        return []
    other.join()
    return results


def test_of_two_threads_that_take_one_array_at_once_one_does(device: ToyDevice) -> None:
    for stop in count(1):
        results = take_in_two_threads(device, stop)
        if not results:
            break
        assert results.count(None) == 1, stop
    assert stop > 5


def test_arrays_whose_overlap_is_too_hard_to_find_count_as_overlapping() -> None:
    """NumPy ends its search for a common element."""
    memory = np.zeros(1 << 14, "float32")
    x = as_strided(memory, (2, 5, 3, 8), (10216, 2024, 688, 92))
    y = as_strided(memory[117:], (2, 7, 4, 4), (5868, 836, 224, 20))
    assert np.shares_memory(x, y)
    with pytest.raises(np.exceptions.TooHardError):
        np.shares_memory(x, y, max_work=10_000)
    assert refusal(
        devmod.ArgumentError, function("xy", "y", lambda *_: None), x, y, grid=1, block=1
    ) == (
        "the toy function 'f': argument 2 'y' overlaps argument 1 'x', and the kernel writes to "
        "one of them; pass a copy of it"
    )
