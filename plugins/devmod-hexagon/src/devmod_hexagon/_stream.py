"""Streams and events. A runner executes requests one after another, so all streams of a device share one order."""

from __future__ import annotations

from contextlib import contextmanager

from devmod import Event, Stream
from devmod.backend import check_driver, check_earlier_event, check_event
from devmod_hexagon._runner import MAX_BATCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from devmod_hexagon._device import HexagonDevice
    from devmod_hexagon._runner import Runner


class HexagonStream(Stream):
    """The order of a device's calls."""

    device: HexagonDevice

    def __init__(self, device: HexagonDevice) -> None:
        self.device = device
        #: The calls of the innermost `batch`, with their runner; None outside of one.
        self._batch: list[bytes] | None = None
        self._batch_runner: Runner | None = None

    def queue(self, runner: Runner, call: bytes) -> None:
        """Queue a call, in the frame of the current batch if there is one."""
        if self._batch is None:
            runner.queue_calls((call,))
            return
        if runner is not self._batch_runner or len(self._batch) == MAX_BATCH:
            self.submit()
        self._batch_runner = runner
        self._batch.append(call)

    def submit(self) -> None:
        """Send the calls of the current batch."""
        if self._batch:
            assert self._batch_runner is not None
            calls, self._batch = self._batch, []
            self._batch_runner.queue_calls(calls)

    def synchronize(self) -> None:
        check_driver("hexagon")
        self.submit()
        self.device.wait()

    def record(self) -> HexagonEvent:
        check_driver("hexagon")
        self.submit()
        return HexagonEvent(self.device, self.device.runner())

    def wait(self, event: Event) -> None:
        check_driver("hexagon")
        event = check_event(event, HexagonEvent, self.device)
        if event.device is not self.device:
            event.synchronize()  # the runners of two devices have no common order

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Send the calls of the body in one frame. See `Stream.batch`."""
        is_outermost = self._batch is None
        if is_outermost:
            self._batch = []
        try:
            yield
        finally:
            if is_outermost:
                try:
                    self.submit()
                finally:
                    self._batch = None

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class HexagonEvent(Event):
    """A point in the order of a runner's requests, with the runner's clock at that point."""

    __slots__ = ("_runner", "_values", "device")

    def __init__(self, device: HexagonDevice, runner: Runner) -> None:
        self.device = device
        self._runner = runner
        #: The clock in nanoseconds, once the reply has been read.
        self._values: list[Any] = []
        runner.queue_clock(self._values.extend)

    def synchronize(self) -> None:
        check_driver("hexagon")
        if not self._values:
            self._runner.check()
            self._runner.wait()

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, HexagonEvent, self.device)
        self.synchronize()
        earlier.synchronize()
        return float(self._values[0] - earlier._values[0]) * 1e-9

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"
