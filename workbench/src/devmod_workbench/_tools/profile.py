"""`devmod.profile`: a record of each call, launch, copy, build and wait, with the time on the host
and on the device.

A profile replaces methods while it is active, so a program without one is as fast as before.

docs/design/runtime.md has the reasons.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial, wraps
from math import inf
from threading import get_ident
from time import perf_counter_ns
from typing import Any, NamedTuple, Self
from weakref import WeakSet

from devmod import Local
from devmod._plugins import hooks
from devmod._plugins.devices import device_label
from devmod.backend import RLock, duration_text, escape, replacing
from devmod.errors import ArgumentError, DevmodError, describe_error
from devmod_runtime import Device, Event, Function, ProgramFunction, Stream, fork_safe
from devmod_runtime._launch.opening import Opening
from devmod_workbench._tables import aligned
from devmod_workbench._tools.observed import Methods, replaced

#: The methods of a device that copy and return when the copy is done. The stream is the last
#: argument, and the bytes are the one before.
_COPIES = {
    "write": "copy to the device",
    "upload": "copy to the device",
    "read": "copy to the host",
    "write_image": "copy to the device",
    "read_image": "copy to the host",
}
#: Those that queue a copy.
_QUEUED_COPIES = {
    "start_write": "queued copy to the device",
    "start_read": "queued copy to the host",
    "copy": "copy on the device",
}
#: Types of arguments that are no arrays.
_NO_ARRAYS = frozenset((int, float, bool, Local))
#: The records of which the times on the device are read together: a driver's events are few.
_MOST_EVENTS = 4096


class Record(NamedTuple):
    """Something that a program did.

    Attributes
    ----------
    action
        "call" (a function, with its checks and copies), "launch", "copy", "build" or "wait".
    name
        The name of the function, or what was copied or waited for. A launch in the call of a
        program has both names, as in "normalize: scale", and a prepared program is one launch with
        its name.
    device
        The kind and the number of the device, such as "opencl:0"; "" if there is none yet.
    start
        When it began, in seconds from the start of the profile.
    host
        The seconds on the host. A launch is queued in this time.
    on_device
        The seconds of a launch or of a queued copy on the device; None for other actions, and where
        devices have no times.
    nbytes
        The bytes of the arrays that a call or a launch gets, each counted once, or of a copy.
    thread
        The number of the thread.
    """

    action: str
    name: str
    device: str
    start: float
    host: float
    on_device: float | None
    nbytes: int
    thread: int


class _Sum(NamedTuple):
    """A row of the table: records of one action, name and device. The times are in seconds; None
    where devices have no times.
    """

    action: str
    name: str
    device: str
    number: int
    host: float
    on_device: float | None
    gb_per_s: float | None

    @property
    def label(self) -> str:
        """What was recorded, as one text."""
        if self.action in ("launch", "copy"):
            return self.name
        if self.action == "wait":
            return f"wait for {self.name}"
        return f"{self.action} {self.name}"


#: A method, or what queues a launch; and the functions that make new methods from present ones.
Method = Callable[..., Any]
_Replacements = dict[tuple[type, str], Callable[[Method], Method]]
#: What is recorded: the action, the name, the device, the begin and the end in nanoseconds, the
#: bytes and the thread. A tuple takes a tenth of the time of a `Record`.
_Entry = tuple[str, str, str, int, int, int, int]


class _Pending(NamedTuple):
    """What a stream has in its queue, whose time on the device is not read yet.

    It is the record; the stream; when the host queued the first event, in nanoseconds; and the
    events around it.
    """

    entry: _Entry
    stream: Stream
    queued: int
    begin: Event
    end: Event


class _OnDevice(NamedTuple):
    """The start on the device, in seconds after an event that the device's launches have in common;
    the seconds there; and the stream.
    """

    start: float
    seconds: float
    stream: Stream


class _Local(threading.local):
    """What a thread does now. A call may have begun before the profile.

    Attributes
    ----------
    inside
        Whether a method is recorded, so that those that it calls are not.
    call
        Of the present call: the device, once it is known, and the bytes.
    queued
        The last record of a launch or of a queued copy.
    passing
        Whether the hooks get a launch, so that they do not get those of their own.
    """

    def __init__(self) -> None:
        self.inside = self.passing = False
        self.call: list[Any] = ["", 0]
        self.queued: _Entry


class Profile:
    """A profile of a part of a program. `devmod.profile` returns one: ``with devmod.profile() as
    p:``.
    """

    def __init__(self, *, device_times: bool = True) -> None:
        self._device_times = device_times
        self._entries: list[_Entry] = []
        self._pending: deque[_Pending] = deque()
        #: Of each device: an event, and the seconds from the first event to it. Drivers give the
        #: time between two events alone.
        self._base: dict[Device, tuple[Event, float]] = {}
        #: Of each device: the seconds of the profile when it reached the first event, at the least.
        self._offset: dict[Device, float] = {}
        #: By the identity of the entry.
        self._on_device: dict[int, _OnDevice] = {}
        self._local = _Local()
        self._stack = ExitStack()
        #: The streams without times.
        self._untimed: WeakSet[Stream] = WeakSet()
        #: Of each device: other threads queue nothing between the two events of a launch.
        self._locks: dict[Device, Any] = {}
        self._start = self._process = 0
        self._is_active = False
        #: The distributions of which a hook has failed.
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        if self._start:
            raise ArgumentError(
                "a profile is used once: call devmod.profile() again", argument="profile"
            )
        self._start = perf_counter_ns()
        self._process = os.getpid()
        self._is_active = True
        self._stack.enter_context(replaced(self._methods(), order=1))
        return self

    def __exit__(self, *details: object) -> None:
        self._stack.close()
        self._is_active = False
        self._read_times()

    # -- results

    @property
    def records(self) -> list[Record]:
        """What the program did, in the order in which it ended. The times on the device are there
        when the context has ended.
        """
        if not self._is_active:
            self._read_times()  # of another thread's launch that began in the context
        return [self._record(entry) for entry in self._entries]

    def _record(self, entry: _Entry) -> Record:
        action, name, device, begin, end, nbytes, thread = entry
        on_device = self._on_device.get(id(entry))
        seconds = None
        if on_device is not None:
            seconds = on_device.seconds
        start = (begin - self._start) * 1e-9
        host = (end - begin) * 1e-9
        return Record(action, name, device, start, host, seconds, nbytes, thread)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows of the table as plain data, with times in seconds."""
        return {"rows": [each._asdict() for each in self._sums()]}

    def _sums(self) -> Iterator[_Sum]:
        """Yield the sums of the kernels, copies, builds and waits, the longest first."""
        groups: dict[tuple[str, str, str], list[Record]] = {}
        for each in self.records:
            if each.action != "call":
                groups.setdefault((each.action, each.name, each.device), []).append(each)
        sums = map(_sum_of, groups.values())
        yield from sorted(sums, key=lambda each: -(each.on_device or each.host))

    def table(self) -> str:
        """Return a table of the kernels, copies, builds and waits: how many, the seconds on the
        host and on the device, and GB/s.
        """
        rows = [("", "device", "count", "host", "device", "GB/s")]
        for each in self._sums():
            on_device = ""
            if each.on_device is not None:
                on_device = duration_text(each.on_device)
            rate = ""
            if each.gb_per_s is not None:
                rate = f"{each.gb_per_s:.3g}"
            host = duration_text(each.host)
            rows.append((each.label, each.device, str(each.number), host, on_device, rate))
        return "\n".join(aligned(rows, left=2))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a trace in Chrome's format, for https://ui.perfetto.dev: a track for each thread,
        and one for each stream of a device.
        """
        events = []
        streams: dict[Stream, int] = {}
        for entry in [*self._entries]:
            each = self._record(entry)
            events.append(_trace_event(each, each.thread, 1, each.start, each.host))
            on_device = self._on_device.get(id(entry))
            if on_device is None:
                continue
            track = streams.setdefault(on_device.stream, len(streams) + 1)
            start = on_device.start + self._offset[on_device.stream.device]
            # The device may have reached the first event before the host queued the launch.
            early = min(max(each.start - start, 0.0), on_device.seconds)
            events.append(_trace_event(each, track, 2, start + early, on_device.seconds - early))

        names = [_trace_name("process_name", "host", pid=1)]
        names.append(_trace_name("process_name", "device", pid=2))
        counts: Counter[str] = Counter()
        for stream, tid in streams.items():
            label = name = device_label(stream.device)
            counts[label] += 1
            if counts[label] > 1:
                name = f"{label}, stream {counts[label]}"
            names.append(_trace_name("thread_name", name, pid=2, tid=tid))
        trace = {"traceEvents": [*names, *events], "displayTimeUnit": "ns"}
        with replacing(path) as file:
            file.write(json.dumps(trace).encode())

    def __repr__(self) -> str:
        return f"<Profile of {len(self._entries)} records>"

    # -- recording

    def _methods(self) -> Methods:
        methods: _Replacements = {
            (Function, "__call__"): self._call,
            (ProgramFunction, "__call__"): self._call,
            (Opening, "build"): partial(
                self._outermost, about=lambda function, device: ("build", function.name, device, 0)
            ),
            (Opening, "queue"): self._queue,
        }
        for base in (Device, Stream):
            methods[base, "__init_subclass__"] = self._watch(base)
            for owner in _classes(base):
                methods |= self._methods_of(owner)
        return methods

    def _watch(self, base: Any) -> Callable[[Any], Any]:
        """Return what replaces `__init_subclass__`: it records the methods of classes that a
        driver's import defines later.
        """

        def make(original: Any) -> Any:
            def new_class(owner: Any, /, **keywords: Any) -> None:
                if original is None:
                    super(base, owner).__init_subclass__(**keywords)
                else:
                    original.__get__(None, owner)(**keywords)
                self._stack.enter_context(replaced(self._methods_of(owner), order=1))

            return classmethod(new_class)

        return make

    def _methods_of(self, owner: type) -> _Replacements:
        """Return what replaces the methods of a class of devices or streams that copy and wait."""
        found: _Replacements = {}
        for name in owner.__dict__.keys() & _COPIES.keys():
            about = partial(_about_copy, _COPIES[name])
            found[owner, name] = partial(self._outermost, about=about, waits=name != "upload")
        found.pop((Device, "upload"), None)  # it calls `write`
        for name in owner.__dict__.keys() & _QUEUED_COPIES.keys():
            found[owner, name] = partial(self._queued_copy, name=_QUEUED_COPIES[name])
        if "synchronize" in owner.__dict__:
            found[owner, "synchronize"] = partial(
                self._outermost,
                about=lambda queue: ("wait", "the device", getattr(queue, "device", queue), 0),
            )
        return found

    def _outermost(self, original: Method, about: Method, waits: bool = False) -> Method:
        """Return a method that records its time, unless another recorded method of devices or
        streams has called it. `about` returns the action, the name, the device and the bytes. With
        `waits`, it waits for the stream before: else the time of a copy has that of the launches
        before it.
        """
        local = self._local

        @wraps(original)
        def recorded(*args: Any, **keywords: Any) -> Any:
            if local.inside:
                return original(*args, **keywords)
            if waits:
                args[-1].synchronize()
            local.inside = True
            begin = perf_counter_ns()
            try:
                return original(*args, **keywords)
            finally:
                end = perf_counter_ns()
                local.inside = False
                action, name, device, nbytes = about(*args)
                self._entries.append(
                    (action, name, device_label(device), begin, end, nbytes, get_ident())
                )

        return recorded

    def _queued_copy(self, original: Method, name: str) -> Method:
        local = self._local

        @wraps(original)
        def recorded(*args: Any) -> Any:
            if local.inside:
                return original(*args)
            data = args[-2]
            nbytes = getattr(data, "nbytes", data)  # of a copy on the device it is a number
            local.inside = True
            try:
                return self._queued("copy", name, args[-1], nbytes, original)(*args)
            finally:
                local.inside = False

        return recorded

    def _call(self, original: Method) -> Method:
        local = self._local
        add = self._entries.append

        @wraps(original)
        def recorded(function: Function, /, *args: Any, **keywords: Any) -> Any:
            call = local.call = ["", _bytes_of((*args, *keywords.values()))]
            begin = perf_counter_ns()
            try:
                return original(function, *args, **keywords)
            finally:
                add(
                    ("call", function.name, call[0], begin, perf_counter_ns(), call[1], get_ident())
                )

        return recorded

    def _queue(self, original: Method) -> Method:
        def queue(
            launch: Method, name: str, stream: Stream, arguments: Iterable[Any] | None
        ) -> Method:
            own = None
            if arguments is not None:
                own = _bytes_of(arguments)
            launch = original(launch, name, stream, arguments)
            record = self._queued("launch", name, stream, own, launch)
            callers = hooks.callers("devmod_launch", stream.device.kind)
            if not callers:
                return record

            def passed_on(*args: Any, **keywords: Any) -> Any:
                result = record(*args, **keywords)
                if not self._local.passing:
                    self._pass_on(callers, self._record(self._local.queued))
                return result

            return passed_on

        return queue

    def _pass_on(self, callers: Iterable[tuple[Any, Method]], record: Record) -> None:
        """Call the hooks ``devmod_launch``. An error of theirs is a warning, one for each
        distribution, and not an error of the launch.
        """
        self._local.passing = True
        try:
            for claim, call in callers:
                try:
                    call(record=record)
                except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                    provider = "this program"
                    if claim.distribution:
                        provider = claim.provider
                    if provider in self._warned:
                        continue
                    self._warned.add(provider)
                    text = f"the hook devmod_launch of {provider} failed: {describe_error(error)}. The launch is not affected"
                    warnings.warn(
                        escape(f"{text}; the profile hides further errors of the hook"),
                        RuntimeWarning,
                        stacklevel=4,
                    )
        finally:
            self._local.passing = False

    def _queued(
        self,
        action: str,
        name: str,
        stream: Stream,
        own: int | None,
        original: Method,
    ) -> Method:
        """Return a function that queues a launch or a copy, with bytes of its own or of the
        thread's present call, and records it; with an event before and after it, if the profile has
        times of the device.
        """
        local = self._local
        order = self._order(stream)
        device = device_label(stream.device)
        event = self._event
        pending = self._pending
        add = self._entries.append

        def recorded(*args: Any, **keywords: Any) -> Any:
            call = local.call
            call[0] = device
            nbytes = own
            if nbytes is None:
                nbytes = call[1]
            begin = perf_counter_ns()
            result = original(*args, **keywords)
            local.queued = (action, name, device, begin, perf_counter_ns(), nbytes, get_ident())
            add(local.queued)
            return result

        if not self._device_times:
            return recorded

        def queued(*args: Any, **keywords: Any) -> Any:
            with order:
                queued_at = perf_counter_ns()
                first = event(stream)
                result = recorded(*args, **keywords)
                entry = local.queued
                last = event(stream)
            if first is not None and last is not None:
                pending.append(_Pending(entry, stream, queued_at, first, last))
                if len(pending) >= _MOST_EVENTS:
                    self._read_times()
            return result

        return queued

    # -- times on the device

    def _order(self, stream: Stream) -> Any:
        """Return the lock that keeps a launch and its events together. Streams of one device may be
        one queue.

        A stream with a lock of its own holds it while it calls prepared launches, so another lock
        could block both threads.
        """
        lock = getattr(stream, "lock", None)
        if hasattr(lock, "acquire"):
            return lock
        return self._locks.get(stream.device) or self._locks.setdefault(
            stream.device, fork_safe(RLock())
        )

    def _event(self, stream: Stream) -> Event | None:
        """Return an event at the end of the stream's queue; None if the stream has no times."""
        if stream in self._untimed:
            return None
        local = self._local
        inside = local.inside
        local.inside = True
        try:
            return stream.record()
        finally:
            local.inside = inside

    def _read_times(self) -> None:
        """Wait for what is recorded, and set the times on the device."""
        if os.getpid() != self._process:
            return  # the driver is the parent's
        inside = self._local.inside
        self._local.inside = True
        try:
            found: dict[Device, list[_Pending]] = {}
            for _ in range(len(self._pending)):
                try:
                    each = self._pending.popleft()
                except IndexError:  # another thread reads them too
                    break
                found.setdefault(each.stream.device, []).append(each)
            for device, records in found.items():
                events: list[Event] = []
                for each in records:
                    events += (each.begin, each.end)
                with suppress(DevmodError):  # that of a record is found below
                    device.read_times(events)
                for each in records:
                    self._read_time(each)
                self._compare_clocks(each.stream)
        finally:
            self._local.inside = inside

    def _read_time(self, each: _Pending) -> None:
        if each.stream in self._untimed:
            return
        device = each.stream.device
        try:
            each.end.synchronize()
            seconds = each.end.elapsed(each.begin)
            start = self._since_first(each.begin, device)
        except DevmodError:  # a kind, a device or a queue without time stamps
            self._untimed.add(each.stream)
            return
        self._on_device[id(each.entry)] = _OnDevice(start, seconds, each.stream)
        self._reached(device, start, each.queued)
        self._reached(device, start + seconds, each.entry[3])  # the end is behind the launch

    def _since_first(self, event: Event, device: Device) -> float:
        """Return the seconds from the device's first event to this one."""
        base, start = self._base.setdefault(device, (event, 0.0))
        if event is base:
            return start
        seconds = start + event.elapsed(base)
        if seconds > start + 1:  # CUDA and HIP return a float of 32 bits
            self._base[device] = event, seconds
        return seconds

    def _reached(self, device: Device, seconds: float, queued: int) -> None:
        """Note that the device reached an event, so many seconds after its first one, when the host
        had queued it, or later.
        """
        offset = (queued - self._start) * 1e-9 - seconds
        self._offset[device] = max(self._offset.get(device, -inf), offset)

    def _compare_clocks(self, stream: Stream) -> None:
        """Compare the clocks by one more event: the device reaches it at once, unless other threads
        have filled the queue.
        """
        if stream in self._untimed:
            return
        now = perf_counter_ns()
        with suppress(DevmodError):
            self._reached(stream.device, self._since_first(stream.record(), stream.device), now)


def profile(*, device_times: bool = True) -> Profile:
    """Record each call, launch, copy, build and wait of a part of a program.

    Parameters
    ----------
    device_times
        Whether to put an event of the stream before and after each launch, whose difference is the
        time on the device. It costs what the driver takes for two events; docs/profiling.md has the
        figures.

    Returns
    -------
    Profile
        A context manager, with `records`, `table()` and `save(path)`.

    Notes
    -----
    Other tracers get each launch by the hook ``devmod_launch``, as it is queued. A hook that raises
    an error does not stop the launch: a RuntimeWarning names its distribution, once in a profile.
    """
    return Profile(device_times=device_times)


def _sum_of(group: Sequence[Record]) -> _Sum:
    """Return the row of records of one action, name and device."""
    first = group[0]
    times = [each.on_device for each in group if each.on_device is not None]
    seconds = host = sum(each.host for each in group)
    on_device = None
    if times:
        seconds = on_device = sum(times)
    # A queued copy without a time on the device has no rate: the host's is that of queueing it.
    is_copied = bool(times) or first.name not in _QUEUED_COPIES.values()
    has_rate = first.action == "launch" or (first.action == "copy" and is_copied)
    nbytes = sum(each.nbytes for each in group)
    rate = None
    if has_rate and nbytes and seconds:
        rate = nbytes / seconds / 1e9
    return _Sum(first.action, first.name, first.device, len(group), host, on_device, rate)


def _about_copy(name: str, *args: Any) -> tuple[str, str, Any, int]:
    """Return the record of a method of a device, whose last arguments are the bytes and the
    stream.
    """
    return "copy", name, args[0], args[-2].nbytes


def _bytes_of(values: Iterable[Any]) -> int:
    """Return the bytes of the arrays among arguments, each array counted once."""
    total = 0
    counted = set()
    for each in values:
        if type(each) in _NO_ARRAYS or id(each) in counted:
            continue
        if getattr(each, "shape", True):
            counted.add(id(each))
            total += getattr(each, "nbytes", 0)
    return total


def _classes(base: type) -> Iterator[type]:
    """Yield a class and all that derive from it."""
    yield base
    subclasses: list[type] = base.__subclasses__()
    for each in subclasses:
        yield from _classes(each)


def _trace_name(what: str, name: str, **place: int) -> dict[str, Any]:
    return {"name": what, "ph": "M", **place, "args": {"name": name}}


def _trace_event(
    record: Record, track: int, pid: int, start: float, seconds: float
) -> dict[str, Any]:
    about = {"device": record.device, "bytes": record.nbytes}
    name = record.name
    if record.action not in ("call", "launch"):
        name = f"{record.action}: {record.name}"
    return {
        "name": name,
        "cat": record.action,
        "ph": "X",
        "pid": pid,
        "tid": track,
        "ts": start * 1e6,
        "dur": seconds * 1e6,
        "args": about,
    }
