"""Vulkan devices, their streams and events, and copies. Devices are listed once, and each is opened
at its first use.
"""

from __future__ import annotations

import ctypes
from collections import deque
from functools import cached_property, partial
from itertools import groupby

from devmod import Device, Event, Stream
from devmod.backend import Capabilities, ConversionError, Once, environment_text
from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_runtime import Batch, check_earlier_event, check_event, lend
from devmod_vulkan import _features
from devmod_vulkan._driver import array, ffi, make, vk
from devmod_vulkan._logical import BEFORE, ONE_TIME, REUSABLE, Logical, Recorder, Timer, Waiter
from devmod_vulkan._physical import Physical, physical_devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from devmod import Image, Sampler
    from devmod_vulkan._images import DeviceImage
    from devmod_vulkan._memory import Memory


#: DLPack's kDLVulkan.
_DLPACK_VULKAN = 7
#: The size of a piece in bytes, and the most pieces in flight.
_PIECE = 8 << 20
_MAX_PENDING = 4
#: The names in `VulkanDevice.limits` of the limits with which functions are compared.
_LIMITS = {
    "block_x": "maxComputeWorkGroupSize[0]",
    "block_y": "maxComputeWorkGroupSize[1]",
    "block_z": "maxComputeWorkGroupSize[2]",
    "block": "maxComputeWorkGroupInvocations",
    "subgroups": "maxComputeWorkgroupSubgroups",
    "shared_memory": "maxComputeSharedMemorySize",
    "array": "maxMemoryAllocationSize",
    "storage": "maxStorageBufferRange",
    "push_constants": "maxPushConstantsSize",
    "uniform": "maxUniformBufferRange",
    "sets": "maxBoundDescriptorSets",
    "storage_buffers": "maxPerStageDescriptorStorageBuffers",
    "uniform_buffers": "maxPerStageDescriptorUniformBuffers",
    "sampled_images": "maxPerStageDescriptorSampledImages",
    "storage_images": "maxPerStageDescriptorStorageImages",
    "samplers": "maxPerStageDescriptorSamplers",
    "resources": "maxPerStageResources",
}
_once = Once()

#: The number of submissions after which the stream releases the finished ones.
_RELEASE_EVERY = 32
_ALL_STAGES = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT


class VulkanDevice(Device):
    """A Vulkan device.

    Parameters
    ----------
    physical
        The properties that the driver reports.
    index
        Its number.
    """

    kind = "vulkan"
    dlpack_type = _DLPACK_VULKAN
    length_unit = 1
    hardware = ""  # the architecture is a version and features

    def __init__(self, physical: Physical, index: int) -> None:
        self.physical = physical
        self.index = index
        self.name = physical.name
        self.vendor = physical.vendor
        self.driver_version = physical.driver_version
        self.memory = physical.memory
        self.arch = physical.arch
        self.limits = physical.limits
        self.subgroup_sizes = physical.subgroup_sizes
        self._once = Once()

    @cached_property
    def features(self) -> frozenset[str]:  # type: ignore[override]
        """What the device has of what functions may need. Few functions need anything."""
        return _features.needs_met(self.physical.features)

    @property
    def logical(self) -> Logical:
        """The open device.

        Raises
        ------
        DeviceNotFoundError
            The driver cannot open it.
        """
        return self._once.get("logical", lambda: Logical(self, self.physical))

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            self,
            _LIMITS,
            subgroup_problem="but {} cannot be required to have a size (missing feature: subgroupSizeControl)",
            image_problem=self._storage_problem,
        )

    def _storage_problem(self, format: str, access: str) -> str:  # noqa: A002 - the base class's name
        """Return why a shader cannot have a storage image of a format, as a clause; "" if it can.
        The device is not opened.
        """
        from devmod.backend import IMAGE_FORMATS
        from devmod_vulkan import _images

        if format not in IMAGE_FORMATS:
            return ""
        return _images.problem_of(self, self.physical, format, (_images.STORAGE,))

    @property
    def default_stream(self) -> VulkanStream:
        return self._once.get("stream", self.stream)

    def stream(self) -> VulkanStream:
        return VulkanStream(self, self.logical)

    def synchronize(self) -> None:
        if "logical" in self._once:
            self.logical.finish()

    def read_times(self, events: Sequence[VulkanEvent]) -> None:  # type: ignore[override]
        timers: dict[VulkanStream, list[Timer]] = {}
        for event in events:
            if event.timer is not None and event.timer.ticks < 0:
                timers.setdefault(event.stream, []).append(event.timer)
        for stream, unread in timers.items():
            read_timers(stream, unread)

    def allocate(self, nbytes: int) -> Memory:
        memory = self.logical.local.allocate(nbytes)
        # A shader of bytes sees an empty array as one element: it has no byte of an earlier array.
        if nbytes == 1:
            self.clear(memory, 1, self.default_stream)
        return memory

    def write(self, memory: Memory, data: memoryview, stream: VulkanStream) -> None:
        """Copy bytes to the start of `memory`. The caller may change `data` when this returns."""
        if memory.address:
            stream.logical.check_open()
            if memory.used:
                stream.synchronize()
            ffi.memmove(ffi.cast("char *", memory.address), data, data.nbytes)
        else:
            new = not memory.used
            self.start_write(memory, data, stream)
            if new:
                stream.synchronize()  # any other stream may use the array next

    def start_write(self, memory: Memory, data: memoryview, stream: VulkanStream) -> None:
        """Copy bytes to staging memory, and queue the copy from there to the start of `memory`."""
        stream.logical.check_open()
        if memory.address and not memory.used:
            self.write(memory, data, stream)
            return
        _upload(
            data,
            stream,
            lambda staged, start, size: _submit_copy(stream, staged, 0, memory, start, size),
        )

    def read(self, memory: Memory, out: memoryview, stream: VulkanStream) -> None:
        """Copy the start of `memory` to `out`, and wait until the copy is done."""
        if memory.address:
            stream.logical.check_open()
            stream.synchronize()
            ffi.memmove(out, ffi.cast("char *", memory.address), out.nbytes)
            return
        for download in _download_array(memory, out, stream):
            _finish(download, stream)

    def start_read(self, memory: Memory, out: memoryview, stream: VulkanStream) -> None:
        """Queue the copy of the start of `memory` to staging memory. The copy to `out` is done when
        the stream is waited for.

        The staging memory is limited, so the call waits for the first part of a large array.
        """
        for download in _download_array(memory, out, stream):
            stream.finish_later(download)

    def copy(self, source: Memory, target: Memory, nbytes: int, stream: VulkanStream) -> None:
        """Queue a copy within the device."""
        stream.logical.check_open()
        _submit_copy(stream, source, 0, target, 0, nbytes)

    def clear(self, memory: Memory, nbytes: int, stream: VulkanStream) -> None:
        """Set new memory to zero."""
        stream.logical.check_open()
        if memory.address:
            ctypes.memset(memory.address, 0, nbytes)
            return
        self.start_clear(memory, nbytes, stream)
        stream.synchronize()  # any other stream may use the array next

    def start_clear(self, memory: Memory, nbytes: int, stream: VulkanStream) -> None:
        """Queue a fill with zeros; a batch gathers it."""
        logical = stream.logical
        logical.check_open()
        memory.used = True
        # Vulkan fills whole words, as pieces of memory are. Behind a part of a piece the word may
        # have other elements.
        size = -(-nbytes // 4) * 4
        if isinstance(memory._token, type(memory)):
            size = nbytes // 4 * 4
        if size:
            _submit(
                stream,
                lambda handle: logical.calls.vkCmdFillBuffer(
                    handle, memory.buffer, memory.offset, size, 0
                ),
                memory,
            )
        if size < nbytes:
            zeros = self.allocate(4)
            self.clear(zeros, 4, self.default_stream)
            _submit_copy(stream, zeros, 0, memory, size, nbytes - size)

    def create_image(self, image: Image) -> DeviceImage:
        from devmod_vulkan import _images

        handle = image.handle = _images.DeviceImage(self.logical, image)
        stream: Any = self.current_stream
        _submit(
            stream,
            lambda commands: _images.record_zeros(stream.logical.calls, commands, image),
            handle,
        )
        stream.synchronize()  # any other stream may use the image next
        return handle

    def create_sampler(self, sampler: Sampler) -> Any:
        from devmod_vulkan import _images

        return _images.create_sampler(self.logical, sampler)

    def write_image(self, image: Image, data: memoryview, stream: VulkanStream) -> None:
        stream.logical.check_open()
        _upload(
            data,
            stream,
            lambda staged, start, size: _submit_image_copy(
                stream, image, staged, start, size, write=True
            ),
            _image_step(image),
        )
        stream.synchronize()  # any other stream may use the image next

    def read_image(self, image: Image, out: memoryview, stream: VulkanStream) -> None:
        downloads = _download(
            out,
            stream,
            lambda staged, start, size: _submit_image_copy(
                stream, image, staged, start, size, write=False
            ),
            _image_step(image),
        )
        for download in downloads:
            _finish(download, stream)

    def image_problem(self, format: str, access: str) -> str:  # noqa: A002 - the name of the caller's argument
        from devmod_vulkan import _images

        self.logical.check_open()
        features: tuple[str, ...] = (_images.SAMPLED, _images.STORAGE)
        if "w" in access:
            features = (_images.STORAGE,)
        return _images.problem_of(self, self.physical, format, features)

    def slice(self, memory: Memory, offset: int, nbytes: int) -> Memory:
        self.logical.check_open()
        return memory.part(offset, nbytes)

    def address(self, memory: Memory) -> int:
        self.logical.check_open()
        address = memory.take_address()
        if not address:
            raise ConversionError(
                f"is on {self}, which gives arrays no addresses (missing feature: bufferDeviceAddress)"
            )
        return address

    def free_memory(self) -> int | None:
        return self.physical.free_memory()


def devices() -> list[VulkanDevice]:
    """Return all devices, the same objects each time. An empty list is not cached.

    Raises
    ------
    DeviceNotFoundError
        There is no device, or none matches ``DEVMOD_VULKAN_DEVICE``.
    """
    return _once.get(
        "devices",
        lambda: [
            VulkanDevice(each, index)
            for index, each in enumerate(preferred_first(physical_devices()))
        ],
    )


def preferred_first(devices: list[Physical]) -> list[Physical]:
    """Return the devices with that of ``DEVMOD_VULKAN_DEVICE`` first. The variable is an index into
    `devices`, or a part of a name.
    """
    preferred = environment_text("DEVMOD_VULKAN_DEVICE")
    if not preferred:
        return devices
    if preferred.isascii() and preferred.isdigit():
        matching = []
        if len(preferred) < 6:
            matching = devices[int(preferred) : int(preferred) + 1]
    else:
        matching = [each for each in devices if preferred.lower() in each.name.lower()]
    if not matching:
        text = "; ".join(f"{number} {each.name}" for number, each in enumerate(devices))
        raise DeviceNotFoundError(
            f"DEVMOD_VULKAN_DEVICE is {preferred!r}: expected the number of a Vulkan device, or a part of its name. Devices: {text}",
            kind="vulkan",
        )
    return [matching[0], *(each for each in devices if each is not matching[0])]


# -- Copies. If the host maps the device's memory and caches it, the host copies directly. Otherwise
# copies go through staging memory in pieces, so that a large array needs no second allocation of
# its size.


class Download:
    """A copy from the device to staging memory, and then to the host's memory `out`.

    `finish` does the second part when the semaphore of the stream has `value`. Several threads may
    wait for it.
    """

    __slots__ = ("_once", "_out", "_staged", "value")

    def __init__(self, value: int, staged: Memory, out: memoryview) -> None:
        self.value = value
        self._staged = staged
        self._out = out
        self._once = Once()

    def finish(self) -> None:
        """Copy to the host's memory, once."""
        source = ffi.cast("char *", self._staged.address)
        self._once.get("copied", lambda: ffi.memmove(self._out, source, self._out.nbytes))


def _pieces(nbytes: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, nbytes, step):
        yield start, min(step, nbytes - start)


def _upload(
    data: memoryview,
    stream: VulkanStream,
    submit: Callable[[Memory, int, int], None],
    step: int = _PIECE,
) -> None:
    """Copy `data` to staging memory in pieces. `submit` queues the copy of each piece to its
    target; it takes its start and its size.
    """
    pending: list[int] = []
    for start, size in _pieces(data.nbytes, step):
        if len(pending) >= _MAX_PENDING:
            stream.wait_until(pending.pop(0))
        staged = stream.logical.staging.allocate(size)
        ffi.memmove(ffi.cast("char *", staged.address), data[start : start + size], size)
        submit(staged, start, size)
        pending.append(stream.flush())


def _download(
    out: memoryview,
    stream: VulkanStream,
    submit: Callable[[Memory, int, int], None],
    step: int = _PIECE,
) -> Iterable[Download]:
    """Submit the copies of all pieces to staging memory, each by `submit`. Return the last ones,
    which are not finished.
    """
    stream.logical.check_open()
    pending: deque[Download] = deque()
    for start, size in _pieces(out.nbytes, step):
        if len(pending) >= _MAX_PENDING:
            _finish(pending.popleft(), stream)
        staged = stream.logical.staging.allocate(size)
        submit(staged, start, size)
        pending.append(Download(stream.flush(), staged, out[start : start + size]))
    return pending


def _download_array(memory: Memory, out: memoryview, stream: VulkanStream) -> Iterable[Download]:
    return _download(
        out,
        stream,
        lambda staged, start, size: _submit_copy(stream, memory, start, staged, 0, size),
    )


def _finish(download: Download, stream: VulkanStream) -> None:
    stream.wait_until(download.value)
    download.finish()


def _submit_copy(
    stream: VulkanStream, source: Memory, start: int, target: Memory, offset: int, size: int
) -> None:
    source.used = target.used = True
    region = make(
        "VkBufferCopy", srcOffset=source.offset + start, dstOffset=target.offset + offset, size=size
    )

    def copy_region(handle: Any) -> None:
        stream.logical.calls.vkCmdCopyBuffer(handle, source.buffer, target.buffer, 1, region)

    _submit(stream, copy_region, source, target)


def _image_step(image: Image) -> int:
    """Return the bytes of a piece of an image, which has whole rows."""
    return max(_PIECE // image.row_bytes, 1) * image.row_bytes


def _submit_image_copy(
    stream: VulkanStream, image: Image, staged: Memory, start: int, size: int, *, write: bool
) -> None:
    """Queue a copy between staging memory and `size` bytes of an image from byte `start` of its
    NumPy array.
    """
    from devmod_vulkan import _images

    calls = stream.logical.calls
    handle = image.handle
    regions = array("VkBufferImageCopy", list(_images.regions(image, start, size, staged.offset)))

    def copy_regions(commands: Any) -> None:
        if write:
            calls.vkCmdCopyBufferToImage(
                commands, staged.buffer, handle.image, _images.GENERAL, len(regions), regions
            )
        else:
            calls.vkCmdCopyImageToBuffer(
                commands, handle.image, _images.GENERAL, staged.buffer, len(regions), regions
            )

    _submit(stream, copy_regions, staged, handle)


def _submit(
    stream: VulkanStream, record: Callable[[Any], object], *resources: Memory | DeviceImage | Timer
) -> None:
    """Record a command buffer with one transfer, and submit it; a batch gathers the transfer. The
    resources are kept until it is done.
    """
    if stream.batches:
        stream.gather(record, resources)
        return
    recorder = stream.logical.commands.recorder()
    recorder.record(stream.logical, ONE_TIME, (record,))
    stream.submit(stream.submission([recorder.handle]), recorder.handle, (recorder, *resources))


# -- Streams. A stream has a timeline semaphore that counts its submissions; an event is a value of
# it.
#
# Several streams may share a queue of the device. Submissions to one stream run in order, because
# every command buffer begins and ends with a barrier.
#
# A batch gathers what is queued, and records it at its end: an interrupt before the submission
# leaves all of it gathered.


class VulkanStream(Stream):
    """A Vulkan stream.

    Attributes
    ----------
    number : int
        Its number among all streams created on the device.
    semaphore
        The timeline semaphore.
    pending
        The submissions that may not be done: value, resources, callback.
    batches : set
        The active batches.
    """

    device: VulkanDevice

    def __init__(self, device: VulkanDevice, logical: Logical) -> None:
        self.device = device
        self.logical = logical
        self.number, queue = logical.next_queue()
        self._queue = queue.handle
        self._lock = queue.lock
        self._submit = logical.calls.vkQueueSubmit
        self._validating = logical.validating
        self.semaphore, self._value = logical.take_semaphore()
        self.pending: deque[tuple[int, Any, Callable[[Any], object] | None]] = deque()
        # Every submission points to these. The value that it sets is written into the cell under
        # the queue's lock.
        self._cell = ffi.new("uint64_t *", self._value)
        self._semaphores = ffi.new("VkSemaphore *", self.semaphore)
        self._timeline = make(
            "VkTimelineSemaphoreSubmitInfo",
            signalSemaphoreValueCount=1,
            pSignalSemaphoreValues=self._cell,
        )
        self._waiters: list[Waiter] = []
        self._waits: list[tuple[Any, int, Any]] = []
        #: What is not submitted: the function that records it, its command buffer, resources,
        #: callback. One of the first two may be None.
        self._gathered: list[
            tuple[Callable[[Any], object] | None, Any, Any, Callable[[Any], object] | None]
        ] = []
        self.batches: set[object] = set()
        #: Whether submissions take the slow path: there are waits, or a batch gathers.
        self._special = False
        self._downloads: dict[int, Download] = {}
        lease = lend(self, (self.semaphore, self._cell, self.pending, self._downloads))
        self._token = lease.token
        logical.streams[self.number] = lease

    # -- submitting

    def submission(self, handles: Sequence[Any]) -> Any:
        """Return a VkSubmitInfo of this stream for command buffers.

        It can be submitted repeatedly.
        """
        return make(
            "VkSubmitInfo",
            pNext=self._timeline,
            commandBufferCount=len(handles),
            pCommandBuffers=array("VkCommandBuffer", list(handles)),
            signalSemaphoreCount=1,
            pSignalSemaphores=self._semaphores,
        )

    def submit(
        self,
        info: Any,
        handle: Any,
        resources: Any,
        release: Callable[[Any], object] | None = None,
        record: Callable[[Any], object] | None = None,
    ) -> None:
        """Submit a command buffer. A batch gathers it.

        Parameters
        ----------
        info
            The VkSubmitInfo that `submission` returned for it.
        handle
            The command buffer.
        resources
            The objects to keep alive until it is done.
        release
            Called with `resources` when it is done.
        record
            Records its commands into the VkCommandBuffer that it receives. A batch then needs no
            command buffer for them alone.

        Raises
        ------
        LaunchError
            The driver fails.
        """
        with self._lock:
            if self._special or self._validating or self.logical.closed:
                self.logical.check_open()
                self._gathered.append((record, handle, resources, release))
                if self.batches:
                    return
                self._flush()
                value = self._value
            else:
                value = self._cell[0] = self._value + 1
                # Python raises KeyboardInterrupt only after a call returns. So the bookkeeping is
                # done before the submission and without a call: an interrupt finds both done or
                # neither.
                self.pending += ((value, resources, release),)
                self._value = value
                code = self._submit(self._queue, 1, info, ffi.NULL)
                if code:
                    raise self._undo(code, 1)
        if not value % _RELEASE_EVERY:
            self._release_finished()

    def gather(
        self,
        record: Callable[[Any], object],
        resources: Any,
        release: Callable[[Any], object] | None = None,
    ) -> None:
        """Add commands to the active batch. They are submitted now if another thread has ended it.
        The arguments are those of `submit`.
        """
        with self._lock:
            self.logical.check_open()
            self._gathered.append((record, None, resources, release))
            if not self.batches:
                self._flush()

    def _record_gathered(self) -> tuple[list[Any], list[Recorder]]:
        """Return the command buffers of what is gathered, and those of them that are new: one for
        each sequence that can be recorded.

        The caller must hold the queue's lock.
        """
        handles = []
        recorders = []
        for can_record, group in groupby(self._gathered, lambda each: each[0] is not None):
            sequence = list(group)
            if not can_record or (len(sequence) == 1 and sequence[0][1] is not None):
                handles += [handle for _, handle, _, _ in sequence]
                continue
            recorder = self.logical.commands.recorder()
            recorder.record(
                self.logical,
                ONE_TIME,
                [record for record, _, _, _ in sequence if record is not None],
            )
            handles.append(recorder.handle)
            recorders.append(recorder)
        return handles, recorders

    def _flush(self) -> None:
        """Submit what is gathered. The caller must hold the queue's lock."""
        self.logical.check_open()
        commands = self._gathered
        waits = self._waits
        special = bool(self.batches)
        if not commands and not waits:
            self._special = special
            return
        try:
            handles, recorders = self._record_gathered()
        except LaunchError:
            self._gathered = []  # the driver would refuse the commands again
            raise
        info = self.submission(handles)
        timeline = make(
            "VkTimelineSemaphoreSubmitInfo",
            signalSemaphoreValueCount=1,
            pSignalSemaphoreValues=self._cell,
            waitSemaphoreValueCount=len(waits),
            pWaitSemaphoreValues=array("uint64_t", [value for _, value, _ in waits]),
        )
        stages = array("VkPipelineStageFlags", [_ALL_STAGES] * len(waits))
        semaphores = array("VkSemaphore", [semaphore for semaphore, _, _ in waits])
        info.pNext = timeline
        info.waitSemaphoreCount = len(waits)
        info.pWaitSemaphores = semaphores
        info.pWaitDstStageMask = stages
        value = self._value + 1
        entries = [(value, resources, release) for _, _, resources, release in commands]
        entries.append((value, (recorders, [stream for _, _, stream in waits]), None))
        # As in `submit`: no calls from here to the submission.
        self._cell[0] = value
        self.pending += entries
        self._gathered = []
        self._waits = []
        self._special = special
        self._value = value
        code = self._submit(self._queue, 1, info, ffi.NULL)
        if code:
            raise self._undo(code, len(entries))
        if self._validating:
            self.logical.check(0, "")

    def _undo(self, code: int, count: int) -> LaunchError:
        """Undo the bookkeeping of a failed submission, and return its LaunchError. The caller must
        hold the queue's lock.
        """
        self._value = self._cell[0] = self._value - 1
        for _ in range(count):
            self.pending.pop()
        return self.logical.driver_error(f"vkQueueSubmit failed on {self.device}", code)

    def flush(self) -> int:
        """Submit what is gathered. Return the semaphore's value when all submissions are done."""
        with self._lock:
            if self._gathered or self._waits:
                self._flush()
            self.logical.check_open()
            return self._value

    def batch(self) -> AbstractContextManager[object]:
        return Batch(self.batches, self._begin_batch, self._end_batch)

    def prepare(
        self, make: Callable[[Stream], Sequence[Callable[[], object]]]
    ) -> Callable[[], object]:
        """As `Stream.prepare`: the commands are recorded once, in one command buffer."""
        side = VulkanStream(self.device, self.logical)
        with side.batch():
            for call in make(side):
                call()
            with side._lock:
                gathered = side._gathered
                side._gathered = []
        records = [record for record, _, _, _ in gathered if record is not None]
        if len(records) < len(gathered):  # a timestamp has a command buffer of its own
            return super().prepare(make)
        recorder = self.logical.commands.recorder()
        recorder.record(self.logical, REUSABLE, records)
        barrier = self.logical.calls.vkCmdPipelineBarrier
        handle = recorder.handle

        def record_again(commands: Any) -> None:
            for number, record in enumerate(records):
                if number:
                    barrier(commands, *BEFORE)
                record(commands)

        resources = recorder, [each for _, _, each, _ in gathered]
        return partial(
            self.submit, self.submission([handle]), handle, resources, None, record_again
        )

    def _begin_batch(self) -> None:
        """Gather the following submissions."""
        with self._lock:
            self._special = True

    def _end_batch(self) -> None:
        """Submit what is gathered, if the outermost batch has ended."""
        with self._lock:
            if self.batches:
                return
            self._flush()
            value = self._value
        if not value % _RELEASE_EVERY:
            self._release_finished()

    # -- waiting

    def synchronize(self) -> None:
        value = self.flush()
        if value:
            self.wait_until(value)

    def _release_finished(self) -> None:
        """Release the resources of finished submissions."""
        out = ffi.new("uint64_t *")
        code = self.logical.calls.vkGetSemaphoreCounterValue(
            self.logical.handle, self.semaphore, out
        )
        if code:
            raise self.logical.driver_error(
                f"vkGetSemaphoreCounterValue failed on {self.device}", code
            )
        self._release(out[0])

    def _release(self, value: int) -> None:
        with self._lock:
            finished = self._take_finished(value)
        # Releasing may run finalizers, so it happens without the lock.
        for _, resources, release in finished:
            if release is not None:
                release(resources)

    def _take_finished(self, value: int) -> list[Any]:
        pending = self.pending
        finished = []
        while pending and pending[0][0] <= value:
            finished.append(pending.popleft())
        return finished

    def wait_until(self, value: int) -> None:
        """Wait until the semaphore has `value`, and release the finished submissions."""
        self.logical.check_open()
        try:
            waiter = self._waiters.pop()
        except IndexError:
            waiter = Waiter(self.logical, self.semaphore)
        waiter.wait(value)
        self._waiters.append(waiter)
        if self._validating:
            self._wait_for_layers()
        self._release(value)
        for number, download in self._downloads.copy().items():
            if download.value <= value:
                download.finish()
                self._downloads.pop(number, None)

    def _wait_for_layers(self) -> None:
        """Wait until the validation layers have reported what the finished kernels print and
        access.

        The layers 1.4.309 report it in another thread, after the semaphore has its value, and drop
        it if the kernel's pipeline is destroyed before. vkQueueWaitIdle waits for that thread.
        """
        with self._lock:
            if self.logical.closed:  # vkDeviceWaitIdle may use the queue
                return
            code = self.logical.calls.vkQueueWaitIdle(self._queue)
        self.logical.check(code, "reports a failed launch")

    def finish_later(self, download: Download) -> None:
        """Finish a download when its value is waited for."""
        self._downloads[id(download)] = download

    # -- events

    def record(self) -> VulkanEvent:
        timer = None
        if self.device.physical.timestamp_bits:
            timer = self.logical.commands.timer()
            self.submit(self.submission([timer.handle]), timer.handle, timer)
        return VulkanEvent(self, self.flush(), timer)

    def wait(self, event: Event) -> None:
        event = check_event(event, VulkanEvent, self.device)
        self.logical.check_open()
        if event.stream.logical is not self.logical:
            event.synchronize()  # a semaphore works on its own device only
            return
        with self._lock:
            if self._gathered:
                self._flush()
            if event.stream is not self:
                self._waits.append((event.stream.semaphore, event.value, event.stream))
                self._special = True

    def time_commands(self, record: Callable[[Any], object], resources: Any) -> float:
        """Submit commands, wait, and return the seconds that they took on the device. The arguments
        are those of `submit`.

        Raises
        ------
        LaunchError
            The device has no timestamps, or the driver fails.
        """
        if not self.device.physical.timestamp_bits:
            raise LaunchError(
                f"{self.device} does not support timestamps, so a launch cannot be timed",
                kind="vulkan",
            )
        before = self.logical.commands.timer()
        after = self.logical.commands.timer()
        with self.batch():  # it makes one submission of the three at its end
            self.submit(None, before.handle, before)
            self.gather(record, resources)
            self.submit(None, after.handle, after)
        read_timers(self, (before, after))
        return seconds_between(self.device.physical, before, after)


# -- Events: values of a stream's semaphore, and timestamps.


class VulkanEvent(Event):
    """A value of a stream's semaphore, and a timestamp if the device supports timestamps."""

    __slots__ = ("stream", "timer", "value")

    def __init__(self, stream: VulkanStream, value: int, timer: Timer | None) -> None:
        self.stream = stream
        self.value = value
        self.timer = timer

    @property
    def device(self) -> VulkanDevice:
        """The device of the stream."""
        return self.stream.device

    def synchronize(self) -> None:
        self.stream.wait_until(self.value)

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, VulkanEvent, self.device)
        if self.timer is None or earlier.timer is None:
            raise LaunchError(
                f"{self.device} does not support timestamps, so the time between events is unknown",
                kind="vulkan",
            )
        self.device.read_times((earlier, self))
        return seconds_between(self.device.physical, earlier.timer, self.timer)


def seconds_between(physical: Physical, before: Timer, after: Timer) -> float:
    """Return the seconds between two timestamps that are read."""
    ticks = after.ticks - before.ticks
    # The counter wraps around after this many ticks.
    span = 1 << physical.timestamp_bits
    ticks = (ticks + span // 2) % span - span // 2
    return float(ticks * physical.timestamp_period * 1e-9)


def read_timers(stream: VulkanStream, timers: Sequence[Timer]) -> None:
    """Read the timestamps of a stream's timers, and wait for them: a command behind them copies all
    of them to the host.

    vkGetQueryPoolResults is not used. Mesa's CPU device waits in each call until no thread has
    anything queued, whatever the flags are.
    """
    logical = stream.logical
    logical.check_open()
    memory = logical.staging.allocate(8 * len(timers))
    memory.used = True
    flags = vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT

    def copy_results(handle: Any) -> None:
        for number, timer in enumerate(timers):
            place = memory.offset + 8 * number
            logical.calls.vkCmdCopyQueryPoolResults(
                handle, timer.queries, timer.number, 1, memory.buffer, place, 8, flags
            )

    _submit(stream, copy_results, memory, *timers)
    stream.synchronize()
    for timer, ticks in zip(
        timers, ffi.cast(f"uint64_t[{len(timers)}]", memory.address), strict=True
    ):
        timer.ticks = ticks
