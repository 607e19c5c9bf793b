"""WebGPU devices. Each adapter is opened at its first use. A device has one queue, which all its streams use."""

from __future__ import annotations

import atexit
import weakref

from devmod import Device, Event, Stream
from devmod.backend import Once, check_driver, check_earlier_event, check_event, open_driver
from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_webgpu import _driver
from devmod_webgpu._driver import launch_error, wgpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_once = Once()
_USAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
_READ = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
_RESOLVE = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC


class WebGPUDevice(Device):
    """A WebGPU device.

    Parameters
    ----------
    adapter
        The GPUAdapter of wgpu.
    index
        Its number.

    Attributes
    ----------
    backend : str
        The API below WebGPU, such as "Vulkan".
    summary : str
        wgpu's description of the adapter and its driver.
    """

    kind = "webgpu"

    def __init__(self, adapter: Any, index: int) -> None:
        self._adapter = adapter
        self.index = index
        self.name = str(adapter.info["device"]).strip()
        self.vendor = str(adapter.info["vendor"]).strip()
        self.driver_version = str(adapter.info["description"]).strip()
        self.backend = _driver.backend_name(adapter)
        self.summary = str(adapter.summary)
        self._limits = _driver.limits_of(adapter)
        self._once = Once()
        #: The buffers that `allocate` returned. No other code destroys them.
        self._own: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def limits(self) -> Mapping[str, int]:  # type: ignore[override]
        """The device's limits, named as in WebGPU."""
        return self._limits

    @property
    def gpu(self) -> Any:
        """The GPUDevice of wgpu. Its buffers can be arguments like devmod's arrays.

        Raises
        ------
        DeviceNotFoundError
            It cannot be opened.
        LaunchError
            This process was forked from one that had opened the device.
        """

        def open_gpu() -> Any:
            try:
                gpu = _driver.open_device(self._adapter)
            except (_driver.Error, RuntimeError) as error:
                raise DeviceNotFoundError(f"{self} cannot be opened: {_driver.describe_error(error)}", kind="webgpu") from error
            _open_devices.append(gpu)
            # wgpu was imported earlier, so this runs before wgpu stops the thread that waiting needs.
            atexit.register(_shutdown.append, True)
            return gpu

        check_driver("webgpu")
        if _shutdown:
            raise LaunchError(f"{self} is closed: the interpreter is shutting down", kind="webgpu")
        return self._once.get("gpu", open_gpu)

    @property
    def opened(self) -> bool:
        """Whether the device is open."""
        return "gpu" in self._once

    @property
    def features(self) -> frozenset[str]:
        """The enabled features, named as in WebGPU."""
        features: frozenset[str] = self._once.get("features", lambda: _driver.features_of(self.gpu))
        return features

    @property
    def default_stream(self) -> WebGPUStream:
        stream: WebGPUStream = self._once.get("stream", self.stream)
        return stream

    def stream(self) -> WebGPUStream:
        return WebGPUStream(self, self.gpu)

    def synchronize(self) -> None:
        try:
            _driver.wait(self.gpu)
        except _driver.Error as error:
            raise launch_error("waiting for the device failed", self, error) from error

    def allocate(self, nbytes: int) -> Any:
        # The sizes of copies and bindings are multiples of four bytes.
        size = -(-nbytes // 4) * 4
        most = self._limits["maxBufferSize"]
        if size > most:
            raise LaunchError(f"{self} cannot allocate {nbytes} bytes: its maxBufferSize is {most}", kind="webgpu")
        try:
            buffer = self.gpu.create_buffer(size=size, usage=_USAGE)
        except _driver.Error as error:
            raise launch_error(f"{self} cannot allocate {nbytes} bytes", self, error) from error
        self._own.add(buffer)
        return buffer

    def owns(self, memory: Any) -> bool:
        """Return whether `allocate` returned this memory."""
        return memory in self._own

    def uniform(self, size: int) -> Any:
        """Return a buffer for a block of scalars of `size` bytes."""
        try:
            return self.gpu.create_buffer(size=-(-size // 16) * 16, usage=wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST)
        except _driver.Error as error:
            raise launch_error(f"{self} cannot allocate a uniform buffer of {size} bytes", self, error) from error

    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        whole = data.nbytes // 4 * 4
        queue = self.gpu.queue
        try:
            if whole:
                queue.write_buffer(memory, 0, data[:whole])
            if whole < data.nbytes:  # the last word belongs to this buffer, so padding it is safe
                queue.write_buffer(memory, whole, bytes(data[whole:]).ljust(4, b"\0"))
        except _driver.Error as error:
            raise launch_error(f"a copy of {data.nbytes} bytes to {self} failed", self, error) from error

    def read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        gpu = self.gpu
        size = -(-out.nbytes // 4) * 4
        try:
            staging = gpu.create_buffer(size=size, usage=_READ)
            encoder = gpu.create_command_encoder()
            encoder.copy_buffer_to_buffer(memory, 0, staging, 0, size)
            gpu.queue.submit([encoder.finish()])
            staging.map_sync(wgpu.MapMode.READ)
            out[:] = staging.read_mapped(copy=False)[: out.nbytes]
            staging.unmap()
        except (_driver.Error, RuntimeError, AttributeError) as error:  # wgpu's poller raises the last two for a lost device
            raise launch_error(f"a copy of {out.nbytes} bytes from {self} failed", self, error) from error

    # -- timestamps

    @property
    def timed(self) -> bool:
        """Whether it supports timestamps."""
        return "timestamp-query" in self.features

    def queries(self, count: int) -> Any:
        """Return a query set for `count` timestamps."""
        return self.gpu.create_query_set(type="timestamp", count=count)

    def times(self, queries: Any, count: int) -> list[float]:
        """Wait for the timestamps of a query set, and return them in seconds."""
        gpu = self.gpu
        buffer = gpu.create_buffer(size=8 * count, usage=_RESOLVE)
        encoder = gpu.create_command_encoder()
        encoder.resolve_query_set(queries, 0, count, buffer, 0)
        gpu.queue.submit([encoder.finish()])
        out = memoryview(bytearray(8 * count))
        self.read(buffer, out, self.default_stream)
        step = self._once.get("step", lambda: _driver.timestamp_period(gpu.queue)) * 1e-9
        return [ticks * step for ticks in out.cast("Q")]


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
            device.gpu.queue.submit([encoder.finish()])
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


def devices() -> list[WebGPUDevice]:
    """Return all devices, the same objects each time. An empty list is not cached.

    Raises
    ------
    DeviceNotFoundError
        There is no device.
    """

    def find() -> list[WebGPUDevice]:
        open_driver("webgpu", _keep_in_child)
        return [WebGPUDevice(adapter, index) for index, adapter in enumerate(_driver.adapters())]

    items: list[WebGPUDevice] = _once.get("devices", find)
    return items


# -- forks


def _keep_in_child() -> None:
    # The driver's threads exist only in the parent, and releasing a device waits for them.
    while _open_devices:
        _driver.never_release(_open_devices.pop())


_open_devices: list[Any] = []
#: Not empty during interpreter shutdown.
_shutdown: list[bool] = []
