"""Devices over a context, a queue or a sub-device of pyopencl that the caller has, and the devices
of pyopencl's other objects.

One context has one device with the memory and the streams. A device over one of several queues of
the context has that memory: its arrays are those of the others.
"""

from __future__ import annotations

import warnings
import weakref

from devmod.backend import ConversionError, RLock
from devmod.errors import ArgumentError
from devmod_opencl._device import OpenCLDevice, OpenCLStream, adopted, all_devices, devices
from devmod_opencl._driver import Error, cl
from devmod_runtime import check_driver, fork_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_lock = fork_safe(RLock())


class ContextDevice(OpenCLDevice):
    """A device over a context of the caller, or over a sub-device, with a context of its own."""

    is_adopted = True
    _pickle_advice = "call devmod.device with an object of that process there"

    #: The number of such devices that were made.
    made = 0

    def __init__(self, handle: Any, context: Any, over: str) -> None:
        ContextDevice.made += 1  # under the lock of this module
        super().__init__(handle, _number_of(handle))
        self._context = context
        self._over = over

    def __repr__(self) -> str:
        return f"{super().__repr__()} over {self._over}"


class QueueDevice(ContextDevice):
    """A device over a queue of the caller, which is its default stream.

    Parameters
    ----------
    space
        The device of the queue's context.
    queue
        pyopencl's CommandQueue.
    """

    is_callers_queue = True

    def __init__(self, space: OpenCLDevice, queue: Any) -> None:
        super().__init__(space.handle, space.context, _text(queue))
        self.queue = queue
        self._space = space
        self._copies = space._copies
        self._number = space._number
        self._streams = space._streams

    @property
    def memory_space(self) -> OpenCLDevice:
        return self._space

    @property
    def default_stream(self) -> OpenCLStream:
        return self._once.get("stream", lambda: self._stream_of(self.queue))


def adopt(handle: Any) -> OpenCLDevice | None:
    """Return the device over an object of pyopencl; None for another one.

    Raises
    ------
    ArgumentError
        The context has several devices, or the queue was finalized.
    """
    if not isinstance(handle, (cl.CommandQueue, cl.Context, cl.Device)):
        return None
    check_driver("opencl")
    if isinstance(handle, cl.Device):
        return _device_over(handle)
    if isinstance(handle, cl.Context):
        if len(handle.devices) != 1:
            raise ArgumentError(
                f"device: {_text(handle)} has {len(handle.devices)} devices; pass one of its queues, as in "
                "devmod.device(pyopencl.CommandQueue(context, device)), or one of its devices",
                kind="opencl",
                argument="kind",
            )
        return _space_of(handle, handle.devices[0])
    with _lock:
        problem = _finalized(handle)
        if problem:
            raise ArgumentError(
                f"device: {problem} was finalized at the end of its `with` statement; pass a queue that is in use",
                kind="opencl",
                argument="kind",
            )
        key = ("queue", handle.int_ptr)
        device = adopted.get(key)
        if device is None:
            space = _space_of(_context_of(handle), handle.device)
            device = adopted[key] = QueueDevice(space, handle)
    return device


def _context_of(queue: Any) -> Any:
    """Return the context of a queue. Intel's runtime has none where no object of pyopencl
    references it.
    """
    try:
        return queue.context
    except Error as error:
        raise ArgumentError(
            f"device: {_text(queue)} has no context ({error}): keep the pyopencl Context with which it was created",
            kind="opencl",
            argument="kind",
        ) from error


def _device_over(handle: Any) -> OpenCLDevice:
    """Return devmod's device for one of pyopencl, a new one for a sub-device."""
    for each in devices():
        if each.handle == handle:
            return each
    with _lock:
        key = ("device", handle.int_ptr)
        device = adopted.get(key)
        if device is None:
            device = adopted[key] = ContextDevice(handle, None, _text(handle))
    return device


def _space_of(context: Any, handle: Any) -> OpenCLDevice:
    """Return the device with the memory of a context, for one of its devices."""
    with _lock:
        device = _known_space(context, handle)
        if device is None:
            device = ContextDevice(handle, context, _text(context))
            adopted["context", context.int_ptr, handle.int_ptr] = device
    return device


def _known_space(context: Any, handle: Any) -> OpenCLDevice | None:
    for each in all_devices():
        # Not `each.context`, which would create one.
        is_same = each._context == context and each.handle == handle
        if is_same and each.memory_space is each:
            return each
    return None


def _number_of(handle: Any) -> int:
    """Return the number of a device in `devices`, for a sub-device that of its parent."""
    while handle is not None:
        for each in devices():
            if each.handle == handle:
                return each.index
        handle = handle.parent_device
    return 0


def _finalized(queue: Any) -> str:
    """Return the words for a queue that was left by its `with` statement; "" for another one.
    pyopencl only warns of its use.
    """
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", cl.CommandQueueUsedAfterExit)
        text = _text(queue)
    if found:
        return text
    return ""


def _text(value: Any) -> str:
    """Return the words for an object of pyopencl, with its address."""
    return f"the pyopencl {type(value).__name__} 0x{hash(value):x}"


def device_of(value: Any) -> OpenCLDevice:
    """Return the device of pyopencl's buffer, array, image or sampler: that over the only queue of
    its context that was adopted, else that over the context.

    Raises
    ------
    ConversionError
        No device is over its context.
    """
    pointer = value.context.int_ptr
    # They change with each device that is adopted or collected.
    made = ContextDevice.made
    count = len(_entries)
    known = _found.get(pointer)
    if known is not None:
        device, made_then, count_then = known[0](), known[1], known[2]
        if made_then == made and count_then == count and device is not None:
            return device
    device = _find_device(value, value.context)
    if len(_found) >= _MOST_FOUND:
        _found.clear()
    _found[pointer] = weakref.ref(device), made, count
    return device


#: The device that was found for the objects of a context, by its address, and the numbers of
#: adopted devices then. Both devices of devmod and adopted ones keep their context, so an address
#: is of no other one while the device is alive.
_found: dict[int, tuple[weakref.ref[OpenCLDevice], int, int]] = {}
_MOST_FOUND = 64
#: Those of `adopted`, whose own length takes longer.
_entries: dict[object, object] = adopted.data  # type: ignore[attr-defined]


def _find_device(value: Any, context: Any) -> OpenCLDevice:
    spaces = []
    queues = []
    for each in all_devices():
        if each._context != context:
            continue
        if each.memory_space is each:
            spaces.append(each)
        else:
            queues.append(each)
    if len(queues) == 1 and queues[0].memory_space.is_adopted:
        return queues[0]
    if spaces:
        return spaces[0]
    own = next((each for each in devices() if each.handle == context.devices[0]), devices()[0])
    if own.context == context:
        return own
    raise ConversionError(
        f"is a pyopencl {type(value).__name__} in {context!r}, which no device of devmod is over; call devmod.device(queue) or "
        f"devmod.device(context) first and keep the result, or create it in devmod.device('opencl', {own.index}).context"
    )


def stream_of(queue: Any) -> OpenCLStream:
    """Return the stream over a queue of pyopencl.

    Raises
    ------
    ConversionError
        As for `device_of`.
    """
    known = adopted.get(("queue", queue.int_ptr))
    if known is not None:
        return known.default_stream
    space = _known_space(queue.context, queue.device)
    if space is None:
        space = device_of(queue)
    return space.stream_over(queue)
