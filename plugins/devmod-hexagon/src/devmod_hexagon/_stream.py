"""Streams and events. A runner executes requests one after another, so all streams of a device share one order."""

from __future__ import annotations

from devmod import Event, Stream
from devmod_runtime import check_driver, check_earlier_event, check_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_hexagon._device import HexagonDevice
    from devmod_hexagon._runner_thread import RunnerThread


class HexagonStream(Stream):
    """The order of a device's calls."""

    device: HexagonDevice

    def __init__(self, device: HexagonDevice) -> None:
        self.device = device

    def synchronize(self) -> None:
        check_driver("hexagon")
        self.device.wait()

    def record(self) -> HexagonEvent:
        check_driver("hexagon")
        return HexagonEvent(self.device, self.device.runner())

    def wait(self, event: Event) -> None:
        check_driver("hexagon")
        event = check_event(event, HexagonEvent, self.device)
        if event.device is not self.device:
            event.synchronize()  # the runners of two devices have no common order

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class HexagonEvent(Event):
    """A point in the order of a runner's requests, with the runner's clock at that point."""

    __slots__ = ("_runner", "_values", "device")

    def __init__(self, device: HexagonDevice, runner: RunnerThread) -> None:
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
