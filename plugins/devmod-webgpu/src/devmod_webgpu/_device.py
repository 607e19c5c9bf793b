"""WebGPU devices, streams and events. Each adapter is opened at its first use. A device has one
queue, which all its streams use.
"""

from __future__ import annotations

import atexit
import weakref

from devmod import Device, Event, Stream
from devmod.backend import IMAGE_FORMATS, Capabilities, Once, RLock
from devmod.errors import ArgumentError, DeviceNotFoundError, LaunchError
from devmod_runtime import (
    Batch,
    call_uninterrupted,
    check_driver,
    check_earlier_event,
    check_event,
    fork_safe,
    open_driver,
)
from devmod_webgpu import _copy, _driver
from devmod_webgpu._bindings import ACCESSES
from devmod_webgpu._driver import launch_error, wgpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

    from devmod import Image, Sampler, Stream


#: The names in `WebGPUDevice.limits` of the limits with which functions are compared.
_LIMITS = {
    "block_x": "maxComputeWorkgroupSizeX",
    "block_y": "maxComputeWorkgroupSizeY",
    "block_z": "maxComputeWorkgroupSizeZ",
    "block": "maxComputeInvocationsPerWorkgroup",
    "shared_memory": "maxComputeWorkgroupStorageSize",
    "array": "maxBufferSize",
    "storage": "maxStorageBufferBindingSize",
    "uniform": "maxUniformBufferBindingSize",
    "sets": "maxBindGroups",
    "storage_buffers": "maxStorageBuffersPerShaderStage",
    "uniform_buffers": "maxUniformBuffersPerShaderStage",
    "sampled_images": "maxSampledTexturesPerShaderStage",
    "storage_images": "maxStorageTexturesPerShaderStage",
    "samplers": "maxSamplersPerShaderStage",
}
_once = Once()
_USAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
#: wgpu's poller raises the last two for a lost device.
_COPY_ERRORS = (_driver.Error, RuntimeError, AttributeError)
_RESOLVE = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC


class WebGPUDevice(Device):
    """A WebGPU device.

    Parameters
    ----------
    adapter
        The GPUAdapter of wgpu.
    index
        Its number.
    gpu
        The caller's GPUDevice; None for one that is opened at the first use.

    Attributes
    ----------
    backend : str
        The API below WebGPU, such as "Vulkan".
    summary : str
        wgpu's description of the adapter and its driver.
    features : frozenset of str
        The enabled features, named as in WebGPU, and as interfaces name them.
    """

    kind = "webgpu"
    length_unit = 4

    def __init__(self, adapter: Any, index: int, gpu: Any = None) -> None:
        self._adapter = adapter
        self.index = index
        self.name = str(adapter.info["device"]).strip()
        self.vendor = str(adapter.info["vendor"]).strip()
        self.driver_version = str(adapter.info["description"]).strip()
        self.backend = str(adapter.info["backend_type"])
        self.is_cpu = adapter.info["adapter_type"] == "CPU"
        self.summary = str(adapter.summary)
        # Of the device, which may have less than its adapter.
        opened = gpu or adapter
        self.features: frozenset[str] = _driver.features_of(opened)
        size = _driver.subgroup_size_of(adapter)
        self.subgroup_sizes = ()
        if size is not None:
            self.subgroup_sizes = (size,)
        limits = _driver.limits_of(opened)
        self.limits = {**limits, "view_alignment": limits["minStorageBufferOffsetAlignment"]}
        self._once = Once()
        #: The GPUDevice while it may be used: None before it is open, in a forked child, and while
        #: the interpreter shuts down.
        self._gpu: Any = gpu
        self._staging = _copy.Staging()
        #: Copies to the host that the next wait finishes.
        self._downloads: dict[int, _copy.Download] = {}
        #: The buffers that `allocate` returned, with the requested bytes. No other code destroys
        #: them.
        self._own: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    @property
    def capabilities(self) -> Capabilities:
        chooses = "and {} chooses the size"
        if "subgroup-size-control" in self.features:
            chooses = ""
        return Capabilities(
            self, _LIMITS, subgroup_problem=chooses, image_problem=self.storage_problem
        )

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

        if self._gpu is not None:
            return self._gpu

        def open_gpu() -> Any:
            try:
                gpu = _driver.open_device(self._adapter)
            except (_driver.Error, RuntimeError) as error:
                raise DeviceNotFoundError(
                    f"{self} cannot be opened: {_driver.describe_error(error)}", kind="webgpu"
                ) from error
            self._gpu = gpu
            _open_devices.append(self)
            # wgpu was imported earlier, so this runs before wgpu stops the thread that waiting
            # needs.
            atexit.register(_shut_down)
            return gpu

        check_driver("webgpu")
        if _shutdown:
            raise self.closed_error()
        return call_uninterrupted(self._once.get, "gpu", open_gpu)

    @property
    def opened(self) -> bool:
        """Whether the device is open."""
        return self._gpu is not None or "gpu" in self._once

    @property
    def default_stream(self) -> WebGPUStream:
        return self._once.get("stream", self.stream)

    def stream(self) -> WebGPUStream:
        return WebGPUStream(self, self.gpu)

    def synchronize(self) -> None:
        gpu = self.gpu
        try:
            call_uninterrupted(_driver.wait, gpu)
            for number, download in self._downloads.copy().items():
                download.finish()
                self._downloads.pop(number, None)
        except LaunchError:  # of a launch of a batch
            raise
        except _COPY_ERRORS as error:
            raise launch_error("waiting for the device failed", self, error) from error

    def allocate(self, nbytes: int) -> Any:
        # The sizes of copies and bindings are multiples of four bytes.
        size = -(-nbytes // 4) * 4
        most = self.limits["maxBufferSize"]
        if size > most:
            raise self.memory_error(nbytes, f"its maxBufferSize is {most}")
        try:
            buffer = self.gpu.create_buffer(size=size, usage=_USAGE)
        except wgpu.GPUOutOfMemoryError as error:
            raise self.memory_error(nbytes, _driver.describe_error(error)) from error
        except _driver.Error as error:
            raise launch_error(f"{self} cannot allocate {nbytes} bytes", self, error) from error
        self._own[buffer] = nbytes
        return buffer

    def owns(self, memory: Any) -> bool:
        """Return whether `allocate` returned this memory, or the buffer that it is a part of."""
        if type(memory) is _copy.Region:
            return memory.buffer in self._own
        return memory in self._own

    def uniform(self, size: int) -> Any:
        """Return a buffer for a block of scalars of `size` bytes."""
        try:
            return self.gpu.create_buffer(
                size=-(-size // 16) * 16, usage=wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST
            )
        except _driver.Error as error:
            raise launch_error(
                f"{self} cannot allocate a uniform buffer of {size} bytes", self, error
            ) from error

    def slice(self, memory: Any, offset: int, nbytes: int) -> _copy.Region:
        check_driver("webgpu")
        return _copy.Region(
            memory, offset, nbytes, is_last=offset + nbytes == self._own.get(memory, memory.size)
        )

    def clear(self, memory: Any, nbytes: int, stream: WebGPUStream) -> None:
        pass  # a new buffer of WebGPU is zero

    def start_clear(self, memory: Any, nbytes: int, stream: WebGPUStream) -> None:
        buffer, start = _copy.place_of(memory)

        def failure(error: Exception) -> LaunchError:
            return launch_error(f"{self} cannot fill {nbytes} bytes", self, error)

        _driver.gather(
            _driver.Clear(self.gpu, buffer, start, -(-nbytes // 4) * 4, failure), stream.batches
        )

    def write(self, memory: Any, data: memoryview, stream: WebGPUStream) -> None:
        self._try_copy(_copy.write, data.nbytes, "to", self._staging, memory, data)

    def read(self, memory: Any, out: memoryview, stream: WebGPUStream) -> None:
        self._try_copy(_copy.read, out.nbytes, "from", self._staging, memory, out)

    def start_read(self, memory: Any, out: memoryview, stream: WebGPUStream) -> None:
        download = self._try_copy(_copy.download, out.nbytes, "from", self._staging, memory, out)
        self._downloads[id(download)] = download

    def copy(self, source: Any, target: Any, nbytes: int, stream: WebGPUStream) -> None:
        if not self._try_copy(_copy.copy, nbytes, "on", source, target, nbytes, _USAGE):
            super().copy(source, target, nbytes, stream)

    def _try_copy(
        self, function: Callable[..., Any], nbytes: int, direction: str, *values: Any
    ) -> Any:
        gpu = self.gpu
        try:
            return function(gpu, *values)
        except LaunchError:  # of a launch of a batch
            raise
        except _COPY_ERRORS as error:
            raise launch_error(
                f"a copy of {nbytes} bytes {direction} {self} failed", self, error
            ) from error

    # -- images

    def create_image(self, image: Image) -> Any:
        from devmod_webgpu import _images

        is_storage = any(not self.storage_problem(image.format, access) for access in ("w", "r"))
        return _images.create(self.gpu, image, is_storage=is_storage)

    def create_sampler(self, sampler: Sampler) -> Any:
        from devmod_webgpu import _images

        return _images.create_sampler(self.gpu, sampler)

    def write_image(self, image: Image, data: memoryview, stream: WebGPUStream) -> None:
        from devmod_webgpu import _images

        self._try_copy(_images.write, data.nbytes, "to", image, data, self.limits["maxBufferSize"])

    def read_image(self, image: Image, out: memoryview, stream: WebGPUStream) -> None:
        from devmod_webgpu import _images

        self._try_copy(
            _images.read,
            out.nbytes,
            "from",
            self._staging,
            image,
            out,
            self.limits["maxBufferSize"],
        )

    def image_problem(self, format: str, access: str) -> str:  # noqa: A002 - the base class's name
        # With "r" the kernel reads a texture, or a storage texture: the kernel is then built with
        # its layout.
        if "w" not in access:
            return ""
        return self.storage_problem(format, access)

    def storage_problem(self, format: str, access: str) -> str:  # noqa: A002 - as above
        """Return why the device has no storage textures of a format and an access, as a clause; ""
        if it has, or if they are unknown.
        """
        if format not in IMAGE_FORMATS or access not in ACCESSES:  # a file may have anything there
            return ""

        def ask() -> str:
            # WebGPU has a table of formats. With wgpu's features beyond WebGPU, the adapter
            # decides.
            layout = {"format": format, "access": ACCESSES[access], "view_dimension": "2d"}
            try:
                self.gpu.create_bind_group_layout(
                    entries=[
                        {
                            "binding": 0,
                            "visibility": wgpu.ShaderStage.COMPUTE,
                            "storage_texture": layout,
                        }
                    ]
                )
            except KeyError as error:  # wgpu before 0.30, whose library lacks some formats
                return f"this version of wgpu has no {error.args[0]}"
            except _driver.Error as error:
                if _driver.is_lost(error):
                    raise launch_error(
                        f"{self} cannot be asked for its formats", self, error
                    ) from error
                return f"{self} has no storage textures of it with the access {layout['access']} ({_driver.describe_error(error)})"
            return ""

        return self._once.get(("storage", format, access), ask)

    # -- timestamps

    @property
    def timed(self) -> bool:
        """Whether it supports timestamps."""
        return "timestamp-query" in self.features

    def times(self, queries: Any, count: int) -> list[float]:
        """Wait for the timestamps of a query set, and return them in seconds."""
        gpu = self.gpu
        buffer = gpu.create_buffer(size=8 * count, usage=_RESOLVE)
        encoder = gpu.create_command_encoder()
        encoder.resolve_query_set(queries, 0, count, buffer, 0)
        _driver.submit(gpu, [encoder.finish()])
        out = memoryview(bytearray(8 * count))
        self.read(buffer, out, self.default_stream)
        step = self._once.get("step", lambda: _driver.timestamp_period(gpu.queue)) * 1e-9
        return [ticks * step for ticks in out.cast("Q")]


class AdoptedDevice(WebGPUDevice):
    """A device over a GPUDevice of the caller, and its queue."""

    is_adopted = True
    is_callers_queue = True
    _pickle_advice = "call devmod.device with a wgpu.GPUDevice of that process there"

    def __init__(self, gpu: Any) -> None:
        super().__init__(gpu.adapter, _number_of(gpu.adapter), gpu)
        self._over = f"the wgpu.GPUDevice 0x{id(gpu):x}"

    def __repr__(self) -> str:
        return f"{super().__repr__()} over {self._over}"


#: By the id of the GPUDevice, which the device references.
_adopted: weakref.WeakValueDictionary[int, AdoptedDevice] = weakref.WeakValueDictionary()
_adopted_lock = fork_safe(RLock())


def adopt(handle: Any) -> WebGPUDevice | None:
    """Return the device over a GPUDevice or a GPUQueue of wgpu; None for another object.

    Raises
    ------
    ArgumentError
        The GPUDevice is lost or destroyed.
    """
    gpu = handle
    if isinstance(handle, wgpu.GPUQueue):
        gpu = handle._device
    if not isinstance(gpu, wgpu.GPUDevice):
        return None
    check_driver("webgpu")
    known = opened_device(gpu)
    if known is None:
        open_driver("webgpu", _keep_in_child)
    try:
        gpu.create_command_encoder().finish()
    except _driver.Error as error:
        raise ArgumentError(
            f"device: the wgpu.{type(handle).__name__} cannot be used: {_driver.describe_error(error)}",
            kind="webgpu",
            argument="kind",
        ) from error
    if known is not None:
        return known
    with _adopted_lock:
        device = _adopted.get(id(gpu))
        if device is None:
            device = _adopted[id(gpu)] = AdoptedDevice(gpu)
            atexit.register(_shut_down)
    return device


def opened_device(gpu: Any) -> WebGPUDevice | None:
    """Return the device over a GPUDevice; None if there is none."""
    adopted = _adopted.get(id(gpu))
    if adopted is not None:
        return adopted
    return next((each for each in _open_devices if each._gpu is gpu), None)


def _number_of(adapter: Any) -> int:
    """Return the number of the adapter in `devices`; 0 for one that is not listed."""
    for device in devices():
        if device._adapter.info == adapter.info:
            return device.index
    return 0


def _adopted_devices() -> list[AdoptedDevice]:
    found = [reference() for reference in _adopted.valuerefs()]
    return [device for device in found if device is not None]


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

    if "devices" in _once:
        return _once.get("devices", find)
    return call_uninterrupted(_once.get, "devices", find)


# -- forks


def _keep_in_child() -> None:
    _driver.never_release()
    for device in _adopted_devices():
        device._gpu = None
    while _open_devices:
        _open_devices.pop()._gpu = None


def _shut_down() -> None:
    _shutdown.append(True)
    for device in [*_open_devices, *_adopted_devices()]:
        device._gpu = None


_open_devices: list[WebGPUDevice] = []
#: Not empty during interpreter shutdown.
_shutdown: list[bool] = []


# -- streams and events


class WebGPUStream(Stream):
    """The device's queue. A WebGPU device has one queue, so the work of all its streams runs in
    order.

    Attributes
    ----------
    gpu
        The GPUDevice of wgpu.
    batches
        Not empty while a batch is active.
    """

    device: WebGPUDevice

    def __init__(self, device: WebGPUDevice, gpu: Any) -> None:
        self.device = device
        self.gpu = gpu
        self.batches: set[object] = set()

    def batch(self) -> AbstractContextManager[object]:
        return Batch(self.batches, lambda: self.device.gpu, self._end_batch)

    def _end_batch(self) -> None:
        """Submit the gathered launches, if the outermost batch has ended."""
        # `gpu` raises its error in a forked child, and while the interpreter shuts down.
        if not self.batches and self.device.gpu:
            _driver.end_submissions()

    def synchronize(self) -> None:
        self.device.synchronize()

    def record(self) -> WebGPUEvent:
        device = self.device
        if not device.timed:
            _driver.end_submissions()
            return WebGPUEvent(device, None)
        try:
            queries = device.gpu.create_query_set(type="timestamp", count=1)
            encoder = device.gpu.create_command_encoder()
            encoder.begin_compute_pass(timestamp_writes=_driver.pass_times(queries)).end()
            _driver.submit(device.gpu, [encoder.finish()])
        except _driver.Error as error:
            raise launch_error(f"{device} cannot record an event", device, error) from error
        return WebGPUEvent(device, queries)

    def wait(self, event: Event) -> None:
        event = check_event(event, WebGPUEvent, self.device)
        check_driver("webgpu")
        if event.device is not self.device:
            event.synchronize()  # queues of two devices cannot wait for each other


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
            raise LaunchError(
                f"{device} cannot time events: it does not support the feature timestamp-query",
                kind="webgpu",
            )
        try:
            return device.times(self.queries, 1)[0] - device.times(earlier.queries, 1)[0]
        except _driver.Error as error:
            raise launch_error(
                f"{device} cannot read the time of an event", device, error
            ) from error
