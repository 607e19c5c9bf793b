"""WebGPU devices: an adapter each, opened when it is first used. A device has one queue, so its streams are all that one."""

from __future__ import annotations

import os
import weakref

from devmod import Device, Event, Stream
from devmod.backend import Once, begun_at, waited_for
from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_webgpu import _driver
from devmod_webgpu._driver import refused, wgpu

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
        wgpu's GPUAdapter.
    index
        Its number.

    Attributes
    ----------
    backend : str
        What it is reached through, such as "Vulkan".
    elsewhere : bool
        Whether another process has it open, from which this one was forked.
    """

    kind = "webgpu"

    def __init__(self, adapter: Any, index: int) -> None:
        self._adapter = adapter
        self.index = index
        self.elsewhere = False
        self.name = str(adapter.info["device"]).strip()
        self.vendor = str(adapter.info["vendor"]).strip()
        self.driver_version = str(adapter.info["description"]).strip()
        self.backend = _driver.backend_words(adapter)
        self._limits = _driver.limits_of(adapter)
        self._made = Once()
        #: The buffers that `allocate` made: nobody else destroys those.
        self._own: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def limits(self) -> Mapping[str, int]:  # type: ignore[override]
        """The device's limits, named as in WebGPU."""
        return self._limits

    @property
    def gpu(self) -> Any:
        """wgpu's GPUDevice; buffers made on it can be arguments beside devmod's arrays.

        Raises
        ------
        DeviceNotFoundError
            It cannot be opened.
        LaunchError
            This process was forked from one that had opened it.
        """

        def make() -> Any:
            try:
                made = _driver.open_device(self._adapter)
            except (_driver.Error, RuntimeError) as error:
                raise DeviceNotFoundError(f"{self} cannot be opened: {_driver.words(error)}", kind="webgpu") from error
            _opened.append((self, made))
            return made

        self.check_here()
        return self._made.get("gpu", make)

    def check_here(self) -> None:
        """LaunchError where the device belongs to the process that this one was forked from."""
        if self.elsewhere:
            raise LaunchError(
                f"{self} is closed: it was opened before this process was forked, and no driver can be used on both sides of a fork; "
                "start processes that use it with multiprocessing's 'spawn' or 'forkserver'",
                kind="webgpu",
            )

    @property
    def opened(self) -> bool:
        """Whether it was opened."""
        return "gpu" in self._made

    @property
    def features(self) -> frozenset[str]:
        """The features that it was opened with, named as in WebGPU."""
        found: frozenset[str] = self._made.get("features", lambda: _driver.features_of(self.gpu))
        return found

    @property
    def default_stream(self) -> WebGPUStream:
        made: WebGPUStream = self._made.get("stream", self.stream)
        return made

    def stream(self) -> WebGPUStream:
        return WebGPUStream(self, self.gpu)

    def synchronize(self) -> None:
        try:
            _driver.wait(self.gpu)
        except _driver.Error as error:
            raise refused("waiting for the device failed", self, error) from error

    def allocate(self, nbytes: int) -> Any:
        # Copies, and the sizes of bindings, are in words of four bytes.
        size = -(-nbytes // 4) * 4
        most = self._limits["maxBufferSize"]
        if size > most:
            raise LaunchError(f"{self} gives no memory of {nbytes} bytes: its maxBufferSize is {most}", kind="webgpu")
        try:
            made = self.gpu.create_buffer(size=size, usage=_USAGE)
        except _driver.Error as error:
            raise refused(f"{self} gives no memory of {nbytes} bytes", self, error) from error
        self._own.add(made)
        return made

    def owns(self, memory: Any) -> bool:
        """Whether `allocate` made it."""
        return memory in self._own

    def uniform(self, size: int) -> Any:
        """A buffer for a block of scalars of so many bytes."""
        try:
            return self.gpu.create_buffer(size=-(-size // 16) * 16, usage=wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST)
        except _driver.Error as error:
            raise refused(f"{self} gives no memory for a launch's scalars", self, error) from error

    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        whole = data.nbytes // 4 * 4
        queue = self.gpu.queue
        try:
            if whole:
                queue.write_buffer(memory, 0, data[:whole])
            if whole < data.nbytes:  # the last word is the buffer's own; what stands behind the data in it is nobody's
                queue.write_buffer(memory, whole, bytes(data[whole:]).ljust(4, b"\0"))
        except _driver.Error as error:
            raise refused(f"a copy of {data.nbytes} bytes to {self} failed", self, error) from error

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
        except (_driver.Error, RuntimeError, AttributeError) as error:  # the last two: what wgpu's poller says of a device that is gone
            raise refused(f"a copy of {out.nbytes} bytes from {self} failed", self, error) from error

    # -- timestamps

    @property
    def timed(self) -> bool:
        """Whether it keeps timestamps."""
        return "timestamp-query" in self.features

    def queries(self, count: int) -> Any:
        """A set of so many timestamps."""
        return self.gpu.create_query_set(type="timestamp", count=count)

    def times(self, queries: Any, count: int) -> list[float]:
        """The seconds that a set of timestamps holds; waits for them."""
        gpu = self.gpu
        buffer = gpu.create_buffer(size=8 * count, usage=_RESOLVE)
        encoder = gpu.create_command_encoder()
        encoder.resolve_query_set(queries, 0, count, buffer, 0)
        gpu.queue.submit([encoder.finish()])
        out = memoryview(bytearray(8 * count))
        self.read(buffer, out, self.default_stream)
        step = self._made.get("step", lambda: _driver.nanoseconds(gpu.queue)) * 1e-9
        return [ticks * step for ticks in out.cast("Q")]


class WebGPUStream(Stream):
    """The device's queue. WebGPU gives a device one; streams of one device are in each other's order.

    Attributes
    ----------
    gpu
        wgpu's GPUDevice.
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
            raise refused(f"{device} gives no event", device, error) from error
        return WebGPUEvent(device, queries)

    def wait(self, event: Event) -> None:
        event = waited_for(event, WebGPUEvent, self.device)
        if event.device is not self.device:
            event.synchronize()  # queues of two devices cannot wait for each other

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class WebGPUEvent(Event):
    """A point in the queue: `queries` has its timestamp where the device keeps any."""

    __slots__ = ("device", "queries")

    def __init__(self, device: WebGPUDevice, queries: Any) -> None:
        self.device = device
        self.queries = queries

    def synchronize(self) -> None:
        # WebGPU tells no more than that the queue is empty.
        self.device.synchronize()

    def elapsed(self, earlier: Event) -> float:
        earlier = begun_at(earlier, WebGPUEvent, self.device)
        device = self.device
        if self.queries is None or earlier.queries is None:
            raise LaunchError(f"{device} keeps no time of an event: it does not have the feature timestamp-query", kind="webgpu")
        try:
            return device.times(self.queries, 1)[0] - device.times(earlier.queries, 1)[0]
        except _driver.Error as error:
            raise refused(f"{device} gives no time of an event", device, error) from error

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"


def devices() -> list[WebGPUDevice]:
    """All devices, the same objects each time; they are looked for until there is one.

    Raises
    ------
    DeviceNotFoundError
        There is none.
    """
    found: list[WebGPUDevice] = _once.get(
        "devices", lambda: [WebGPUDevice(adapter, index) for index, adapter in enumerate(_driver.adapters())]
    )
    return found


# -- forks


def _after_fork_in_child() -> None:
    # The driver's threads stayed in the other process: whatever waits here, the end of Python with it, would wait for ever.
    while _opened:
        device, gpu = _opened.pop()
        device.elsewhere = True
        _driver.never_release(gpu)


_opened: list[tuple[WebGPUDevice, Any]] = []
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_after_fork_in_child)
