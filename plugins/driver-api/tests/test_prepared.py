"""Prepared sequences of launches and fills, for each vendor: one graph of the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from vendor import Vendor

import devmod


def sequence(
    x: Any, step: Any, count: int = 20
) -> Callable[[devmod.Stream], list[Callable[[], object]]]:
    """A fill of all but the last number, and launches of x = 2 x + 1."""

    def make(stream: devmod.Stream) -> list[Callable[[], object]]:
        launch = step.bind(x, 1, grid=1, block=4, stream=stream)
        return [lambda: x.device.start_clear(x.memory, 12, stream), *[launch] * count]

    return make


@pytest.mark.each_driver
def test_a_prepared_sequence_is_one_graph_launch(
    device: Any, stream: Any, step: Any, vendor: Vendor
) -> None:
    x = device.zeros(4, "int32")
    step(x, 7, grid=1, block=4, stream=stream)
    for target in (stream, device.default_stream):
        queue = target.prepare(sequence(x, step))
        names = ("launch_graph", "fill", "launch")
        before = [vendor.calls(name) for name in names]
        queue()
        assert [vendor.calls(name) - each for name, each in zip(names, before, strict=True)] == [
            1,
            0,
            0,
        ]
        target.synchronize()
        assert x.numpy()[:3].tolist() == [2**20 - 1] * 3
    assert x.numpy()[3] != 2**20 - 1


@pytest.mark.each_driver
def test_threads_queue_one_prepared_sequence(
    device: Any, stream: Any, step: Any, vendor: Vendor
) -> None:
    x, count = device.zeros(4, "int32"), 6 if vendor.executes_slowly else 50
    queue = stream.prepare(sequence(x, step, 3))
    threads = [threading.Thread(target=lambda: [queue() for _ in range(count)]) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    stream.synchronize()
    assert x.numpy()[:3].tolist() == [7] * 3


@pytest.mark.each_driver
def test_a_prepared_sequence_in_a_batch_keeps_the_order(
    device: Any, stream: Any, step: Any
) -> None:
    x = device.zeros(4, "int32")
    queue = stream.prepare(sequence(x, step, 2))
    with stream.batch():
        step(x, 5, grid=1, block=4, stream=stream)
        queue()
        step(x, 5, grid=1, block=4, stream=stream)
    stream.synchronize()
    assert x.numpy().tolist() == [11, 11, 11, 2 * (2 * (2 * 5 + 1) + 1) + 5]
