"""Streams and events. A device has one queue, which all its streams use."""

from __future__ import annotations

from devmod import Event, Stream
from devmod.errors import LaunchError
from devmod_runtime import check_driver, check_earlier_event, check_event
from devmod_webgpu import _driver
from devmod_webgpu._driver import launch_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_webgpu._device import WebGPUDevice


class WebGPUStream(Stream):
    """The device's queue. A WebGPU device has one queue, so the work of all its streams runs in order.

    Attributes
    ----------
    gpu
        The GPUDevice of wgpu.
    """

    device: WebGPUDevice

    def __init__(self, device: WebGPUDevice, gpu: Any) -> None:
        self.device = device
        self.gpu = gpu

    def synchronize(self) -> None:
        self.device.synchronize()

    def record(self) -> WebGPUEvent:
        device = self.device
        if not device.timed:
            return WebGPUEvent(device, None)
        try:
            queries = device.queries(1)
            encoder = device.gpu.create_command_encoder()
            encoder.begin_compute_pass(timestamp_writes=_driver.pass_times(queries, 0)).end()
            _driver.submit(device.gpu, [encoder.finish()])
        except _driver.Error as error:
            raise launch_error(f"{device} cannot record an event", device, error) from error
        return WebGPUEvent(device, queries)

    def wait(self, event: Event) -> None:
        event = check_event(event, WebGPUEvent, self.device)
        check_driver("webgpu")
        if event.device is not self.device:
            event.synchronize()  # queues of two devices cannot wait for each other

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class WebGPUEvent(Event):
    """A point in the queue. `queries` has its timestamp, or is None without timestamps."""

    __slots__ = ("device", "queries")

    def __init__(self, device: WebGPUDevice, queries: Any) -> None:
        self.device = device
        self.queries = queries

    def synchronize(self) -> None:
        # WebGPU can only wait for the whole queue.
        self.device.synchronize()

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, WebGPUEvent, self.device)
        device = self.device
        if self.queries is None or earlier.queries is None:
            raise LaunchError(f"{device} cannot time events: it does not support the feature timestamp-query", kind="webgpu")
        try:
            return device.times(self.queries, 1)[0] - device.times(earlier.queries, 1)[0]
        except _driver.Error as error:
            raise launch_error(f"{device} cannot read the time of an event", device, error) from error

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"
