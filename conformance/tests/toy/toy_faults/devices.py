"""Faults of devices, arrays, streams and events."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict, deque
from typing import ClassVar

import devmod_toy._entries as entries
from devmod_toy._device import ADOPTED, AdoptedToy, ToyDevice, ToyEvent, ToyStream, driver
from devmod_toy._module import ToyKernel, ToyModule

from toy_faults._fault import fault, replaces

IDLE = "the seconds of two events of an idle device: expected … to …, got "
ONE = "the seconds of one launch of 'wait' by Launch.time: "
SLOW = "the seconds of 1 × 'wait' between two events: expected … to …, got …"


#: Work that is queued, and numbers of places in memory.
QUEUE, PLACES = [], itertools.count()
#: Devices and objects that are never collected.
KEPT = []


def run_queue(most=None):
    """Do the first work that is queued, or all."""
    for _ in QUEUE[:most]:
        QUEUE.pop(0)()


class Everything(frozenset):
    """A set that has everything."""

    def __contains__(self, need):
        return True


# A device has every feature and every size of subgroups that it is asked for.
fault(
    "has_everything",
    "R40-needs",
    reason="'axpy' with {'needs': ['no_such_need']}: expected DeviceNotFoundError, but it was launched",
).sets(ToyDevice, "features", Everything(("fp64",)))


class NewName:
    """A name that is another one at each look."""

    def __get__(self, device, owner):
        return f"toy {next(PLACES)}"

    def __set__(self, device, name):
        pass


# A device has another name at each look, so that no record is of it.
fault(
    "new_names",
    "R52-variants",
    reason="what the tuned 'axpy' takes with a record of …: expected [{'variant': 2}], got [{'variant': 1}]",
).sets(ToyDevice, "name", NewName())


@replaces(
    entries,
    "devices",
    "R33-devices",
    reason="devmod.device('toy', 0) returns another object at each call",
)
def new_devices(before):
    """devices() creates new objects at each call."""
    return [ToyDevice(index, name) for index, name in enumerate(driver().DEVICES)]


@replaces(
    entries,
    "adopt",
    "R57",
    reason="devmod.device returns another device for the same object at each call",
)
def new_adopted(before, handle):
    """An object has another device at each call."""
    ADOPTED.clear()
    return before(handle)


@replaces(
    entries,
    "adopt",
    "R57",
    reason="the device over an object is alive after its last reference: a function or the backend keeps it",
)
def kept_adopted(before, handle):
    """The devices over objects are never collected."""
    device = before(handle)
    KEPT.append(device)
    return device


@replaces(
    entries,
    "adopt",
    "R57",
    reason="the references to an object after its device is gone: expected …, got …",
)
def kept_handle(before, handle):
    """The objects are never collected."""
    if type(handle).__module__ == "toydriver":
        KEPT.append(handle)
    return before(handle)


@replaces(
    entries,
    "adopt",
    "R57",
    reason="devmod.adopt.toy takes an object of another library: expected None",
)
def adopts_everything(before, handle):
    """Each object is adopted."""
    return AdoptedToy(handle)


# -- arrays


@replaces(
    ToyDevice,
    "slice",
    "R37-views",
    reason="a write to a slice does not change exactly its part of the array",
)
def copied_slice(before, self, memory, offset, nbytes):
    """A slice of an array is a copy."""
    return bytearray(memory[offset : offset + nbytes])


@replaces(ToyDevice, "view", "R37-dlpack", reason="the view of an array's memory does not share it")
def copied_view(before, self, memory):
    """Device.view returns a copy of the memory."""
    return memoryview(bytearray(memory))


@replaces(
    ToyDevice,
    "allocate",
    "R37-zeros",
    reason="Device.zeros((7,), 'float32') has other values than zero",
)
def dirty_zeros(before, self, nbytes):
    """Device.zeros does not clear memory that was used before."""
    return bytearray(b"\1") * nbytes


@dirty_zeros.replaces(ToyDevice, "clear")
def _(before, self, memory, nbytes, stream):
    pass


class Pooled(bytearray):
    """Memory that is used again after three other pieces of its size."""

    freed: ClassVar[dict[int, deque[bytes]]] = defaultdict(deque)

    def __del__(self):
        self.freed[len(self)].append(bytes(self))


@replaces(
    ToyDevice,
    "allocate",
    "R37-zeros",
    reason="Device.zeros((7,), 'float32') has other values than zero",
)
def late_zeros(before, self, nbytes):
    """Device.zeros does not clear memory that was used before, and its pool uses the oldest memory
    first.
    """
    freed = Pooled.freed[nbytes]
    return Pooled(freed.popleft() if len(freed) > 3 else nbytes)


@late_zeros.replaces(ToyDevice, "clear")
def _(before, self, memory, nbytes, stream):
    pass


@replaces(
    ToyDevice,
    "use_in_place",
    "R37-in-place",
    reason="'axpy' with host arrays where they are: argument 2 is wrong in …",
)
def copies_in_place(before, self, data, address, *, written):
    """What the kernel writes to a host array stays in a copy."""
    return bytearray(data)


@replaces(
    ToyDevice, "copy", "R37-copies", reason="copy_from of an array of float32 has other values"
)
def half_copied(before, self, source, target, nbytes, stream):
    """A copy between arrays copies half of the bytes."""
    before(self, source, target, nbytes // 2, stream)


@replaces(
    ToyDevice, "write", "R37-copies", reason="copy_from of an array of float32 has other values"
)
def truncated_write(before, self, memory, data, stream):
    """A copy from the host has 1 MiB at most."""
    before(self, memory, data[: 1 << 20], stream)


@replaces(
    ToyDevice,
    "start_read",
    "R37-copies",
    reason="copies from and to a contiguous host array of float32 are wrong after a wait for <…",
)
def late_read(before, self, memory, out, stream):
    """A started copy to the host is done when its event is waited for, and not when its stream
    is.
    """
    QUEUE[:] = [lambda: before(self, memory, out, stream)]


@late_read.replaces(ToyEvent, "synchronize")
def _(before, self):
    run_queue()


@replaces(
    ToyDevice,
    "copy",
    "R37-copies",
    reason="'axpy' copied on the stream of the launch: argument 2 is wrong in …",
)
def early_copy(before, self, source, target, nbytes, stream):
    """A copy waits for the first launch that is queued, and not for all."""
    run_queue(1)
    target[:nbytes] = source[:nbytes]


@early_copy.replaces(ToyDevice, "write")
def _(before, self, *arguments):
    run_queue(1)
    before(self, *arguments)


@early_copy.replaces(ToyKernel, "caller")
def _(before, self, stream, shape):
    run = before(self, stream, shape)
    return lambda values: QUEUE.append(lambda: run(values))


@early_copy.replaces(ToyStream, "synchronize")
@early_copy.replaces(ToyDevice, "synchronize")
@early_copy.replaces(ToyEvent, "synchronize")
def _(before, self):
    run_queue()


@early_copy.replaces(ToyDevice, "read")
def _(before, self, *arguments):
    run_queue()
    before(self, *arguments)


@replaces(ToyDevice, "copy", "R37-views", reason="a copy between parts that overlap is wrong")
def upward_copy(before, self, source, target, nbytes, stream):
    """Parts of an array are places of their own, and a copy begins with the first byte."""
    for number in range(nbytes):
        target[number] = source[number]


@upward_copy.replaces(ToyDevice, "place")
def _(before, self, memory):
    return next(PLACES), 0


@replaces(ToyKernel, "caller", "R37-views", reason="'axpy' writes beside a slice")
def whole_words(before, self, stream, shape):
    """A kernel writes to the byte behind a slice."""
    run = before(self, stream, shape)

    def call(values):
        run(values)
        for each in values:
            if isinstance(each, memoryview):
                each.obj[-1] = 1

    return call


@replaces(
    ToyKernel,
    "prepare",
    "R37-views",
    reason="'axpy' with slices of arrays, bound, after a call: argument …",
)
def bound_array(before, self, stream, shape, values):
    """A bound launch has the whole array in the place of a slice."""
    return before(
        self, stream, shape, [each.obj if isinstance(each, memoryview) else each for each in values]
    )


@replaces(
    ToyDevice,
    "allocate",
    "R37-memory",
    reason="an array of 72057594037927936 bytes: expected DeviceMemoryError, got MemoryError…",
)
def memory_error(before, self, nbytes):
    """An array that is too large raises Python's MemoryError."""
    return bytearray(nbytes)


@replaces(
    ToyModule,
    "get_global",
    "R20-unknown",
    "R20-values",
    reason="get_global('no_such_function') of a created module: expected FunctionNotFoundError, but no error was raised",
)
def no_global(before, self, name):
    """get_global returns None for unknown names, and wrong values."""
    return entries.devices()[0].empty((4,), "int32") if name == "weights" else None


@replaces(
    ToyDevice,
    "write",
    "R37-device",
    "R33-several",
    reason="'axpy' with device arrays: argument 2 is wrong in 40 of 50 elements; at 0: expected …, got …",
)
def stale_array(before, self, memory, data, stream):
    """Array.numpy returns the values before the launch."""
    before(self, memory, data, stream)
    self.__dict__.setdefault("kept", []).append((memory, bytes(memory)))


@stale_array.replaces(ToyDevice, "read")
def _(before, self, memory, out, stream):
    for each, data in self.__dict__.get("kept", ()):
        if each is memory:
            memory = data
    before(self, memory, out, stream)


# -- streams and events


@replaces(
    ToyEvent,
    "elapsed",
    "R37-stream",
    reason="the seconds between two events: expected 0 or more, got -…",
)
def backward_time(before, self, earlier):
    """Events measure negative times."""
    return -before(self, earlier) - 1e-9


@replaces(
    ToyEvent,
    "elapsed",
    "R37-stream",
    reason="the seconds between two events: expected 0 or more, got -…",
)
def unsigned_time(before, self, earlier):
    """The seconds back to an earlier event are those forward to it."""
    return abs(before(self, earlier))


@replaces(
    ToyStream,
    "wait",
    "R37-events",
    reason="Stream.wait with an event of another backend: expected ArgumentError, but no error was raised",
)
def waits_for_others(before, self, event):
    """A stream waits for any event."""


@replaces(
    ToyKernel,
    "caller",
    "R37-deleted",
    reason="'axpy' on a stream that is deleted: argument 2 is wrong in …",
)
def lost_launches(before, self, stream, shape):
    """The launches of a stream that nothing waits for are lost with it."""
    run = before(self, stream, shape)
    if stream is stream.device.default_stream:
        return run
    stream.queue = getattr(stream, "queue", [])
    return lambda values: stream.queue.append(lambda: run(values))


@lost_launches.replaces(ToyStream, "record")
def _(before, self):
    for each in self.__dict__.pop("queue", []):
        each()
    return before(self)


@replaces(ToyEvent, "elapsed", "R37-elapsed", reason=IDLE + "0.001")
def constant_time(before, self, earlier):
    """The time between two events is a constant."""
    return 0.001


@replaces(
    ToyStream,
    "__enter__",
    "R37-current",
    reason="Device.current_stream is not the stream of the innermost body",
)
def other_stream(before, self):
    """The body of a stream does not change the current stream."""
    return self


@other_stream.replaces(ToyStream, "__exit__")
def _(before, self, *details):
    pass


@replaces(ToyKernel, "caller", "R37-elapsed", reason=SLOW)
def host_time(before, self, stream, shape):
    """The time of an event is the host's at `record`, though the launches before it are only
    queued.
    """
    run = before(self, stream, shape)
    return lambda values: QUEUE.append(lambda: run(values))


@host_time.replaces(ToyEvent, "synchronize")
@host_time.replaces(ToyStream, "synchronize")
def _(before, self):
    run_queue()


LAST = [ToyEvent()]


@replaces(ToyKernel, "caller", "R37-elapsed", reason=IDLE + "0.0")
def last_time(before, self, stream, shape):
    """The time of an event is the end of the last launch before it, also if the device was idle
    since.
    """
    run = before(self, stream, shape)

    def call(values):
        run(values)
        LAST[:] = [ToyEvent()]

    return call


@last_time.replaces(ToyStream, "record")
def _(before, self):
    return LAST[0]


@replaces(ToyEvent, "__init__", "R37-elapsed", reason=SLOW)
def late_time(before, self):
    """The time of an event comes from another queue, which reaches it later."""
    self.at = None


@late_time.replaces(ToyEvent, "synchronize")
def _(before, self):
    self.at = self.at or time.monotonic()


@late_time.replaces(ToyEvent, "elapsed")
def _(before, self, earlier):
    earlier.synchronize()
    self.synchronize()
    return self.at - earlier.at


@replaces(
    ToyKernel,
    "time",
    "R37-elapsed",
    reason="the seconds of one launch of 'wait' by Launch.time: expected … to …, got 1e-06",
)
def short_time(before, self, stream, shape, values):
    """Launch.time does not wait for the launch."""
    return 1e-6


@replaces(ToyKernel, "time", "R37-elapsed", reason=ONE + "expected 0.0000 to …, got …")
def time_in_milliseconds(before, self, stream, shape, values):
    """Launch.time returns milliseconds."""
    return before(self, stream, shape, values) * 1e3


@replaces(ToyKernel, "time", "R37-elapsed", reason=ONE + "expected 0.0… to …, got …e-05")
def time_of_milliseconds(before, self, stream, shape, values):
    """Launch.time takes the seconds of the driver for milliseconds."""
    return before(self, stream, shape, values) * 1e-3


@replaces(ToyKernel, "time", "R37-elapsed", reason=ONE + "expected 0.0000 to …, got -0.…")
def time_is_negative(before, self, stream, shape, values):
    """Launch.time subtracts the end of a launch from its begin."""
    return -before(self, stream, shape, values)


@replaces(ToyKernel, "time", "R37-elapsed", reason=ONE + "expected 0.0… to …, got 0.0")
def time_is_zero(before, self, stream, shape, values):
    """Launch.time reads both times before the launch."""
    before(self, stream, shape, values)
    return 0.0


@replaces(ToyEvent, "elapsed", "R37-elapsed", reason=IDLE + "…")
def events_in_milliseconds(before, self, earlier):
    """Event.elapsed returns milliseconds."""
    return before(self, earlier) * 1e3


@replaces(ToyEvent, "elapsed", "R37-elapsed", reason=IDLE + "…e-05")
def events_of_milliseconds(before, self, earlier):
    """Event.elapsed takes the seconds of the driver for milliseconds."""
    return before(self, earlier) * 1e-3
