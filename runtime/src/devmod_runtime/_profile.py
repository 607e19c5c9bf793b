"""`devmod.profile`: a record of each call, launch, copy, build and wait, with the time on the host and on the device.

A profile replaces methods while it is active, so a program without one is as fast as before.

docs/design/runtime.md has the reasons.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import ExitStack, suppress
from functools import partial, wraps
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns
from traceback import walk_tb
from typing import NamedTuple
from weakref import WeakKeyDictionary

from devmod._plugins import hooks, registry
from devmod._plugins.devices import device_label
from devmod.errors import ArgumentError, DevmodError, describe_error
from devmod_runtime._device.device import Device
from devmod_runtime._device.stream import Event, Stream
from devmod_runtime._launch.function import Function, Launch
from devmod_runtime._launch.function import _references as references
from devmod_runtime._observed import replaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self

    from devmod_runtime._observed import Methods

#: The methods of a device that copy: the name of the record, and the position of the argument with the bytes.
_COPIES = {
    "upload": ("copy to the device", 1),
    "write": ("copy to the device", 2),
    "start_write": ("copy to the device", 2),
    "read": ("copy to the host", 2),
    "start_read": ("copy to the host", 2),
    "copy": ("copy on the device", 3),
    "write_image": ("copy to the device", 2),
    "read_image": ("copy to the host", 2),
}
#: The records of which the times on the device are read together: a driver's events are few.
_MOST_EVENTS = 4096


class Record(NamedTuple):
    """Something that a program did.

    Attributes
    ----------
    action
        "call" (a function, with its checks and copies), "launch", "copy", "build" or "wait".
    name
        The name of the function, or what was copied or waited for.
    device
        The kind and the number of the device, such as "opencl:0"; "" if there is none yet.
    start
        When it began, in seconds from the start of the profile.
    host
        The seconds on the host. A launch is queued in this time.
    on_device
        The seconds of a launch on the device; None for other actions, and where devices have no times.
    nbytes
        The bytes of the arrays that a call or a launch gets, or of a copy.
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


#: What is recorded: the action, the name, the device, the begin and the end in nanoseconds, the bytes and the thread. A tuple takes a tenth
#: of the time of a `Record`.
_Entry = tuple[str, str, str, int, int, int, int]


class _Pending(NamedTuple):
    """A launch whose time on the device is not read yet: what was recorded of it, and the events around it."""

    entry: _Entry
    begin: Event
    end: Event


class _Local(threading.local):
    """What a thread does now. A call may have begun before the profile.

    Attributes
    ----------
    inside
        Whether a method is recorded, so that those that it calls are not.
    device, nbytes
        Of the present call.
    """

    inside = False
    device = ""
    nbytes = 0


class Profile:
    """A profile of a part of a program. `devmod.profile` returns one: ``with devmod.profile() as p:``."""

    def __init__(self, *, device_times: bool = True) -> None:
        self._device_times = device_times
        self._entries: list[_Entry] = []
        self._pending: list[_Pending] = []
        #: Of each stream's device: the first event and the time of the host when it was made, for the trace.
        self._first: dict[str, tuple[Event, float]] = {}
        #: How much later each device reached its first event at the least: none of its launches began before the host queued it.
        self._late: dict[str, float] = {}
        #: The start of each launch on its device, in seconds of the profile, and its seconds there, by the identity of its entry.
        self._on_device: dict[int, tuple[float, float]] = {}
        self._local = _Local()
        self._stack = ExitStack()
        #: The devices without times.
        self._untimed: set[str] = set()
        self._start = self._process = 0
        self._hooked = False
        #: The distributions of which a hook has failed.
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        if self._start:
            raise ArgumentError("a profile is used once: call devmod.profile() again", argument="profile")
        self._hooked = any(claim.name.partition(".")[0] == "devmod_launch" for claim in registry.claims("devmod.hooks"))
        self._start, self._process = perf_counter_ns(), os.getpid()
        self._stack.callback(_end, self)
        _profiles.append(self)
        self._stack.enter_context(replaced(self._methods(), order=1))
        _renew()
        return self

    def __exit__(self, *details: object) -> None:
        self._stack.close()
        self._read_times()

    # -- results

    @property
    def records(self) -> list[Record]:
        """What the program did, in the order in which it ended. The times on the device are there when the context has ended."""
        return [self._record(entry) for entry in self._entries]

    def _record(self, entry: _Entry) -> Record:
        action, name, device, begin, end, nbytes, thread = entry
        on_device = self._on_device.get(id(entry))
        seconds = on_device[1] if on_device is not None else None
        return Record(action, name, device, (begin - self._start) * 1e-9, (end - begin) * 1e-9, seconds, nbytes, thread)

    def table(self) -> str:
        """Return a table of the kernels, copies, builds and waits: how many, the seconds on the host and on the device, and GB/s."""
        groups: dict[tuple[str, str, str], list[Record]] = {}
        for each in self.records:
            if each.action != "call":
                groups.setdefault((each.action, each.name, each.device), []).append(each)
        rows = [("", "device", "count", "host", "device", "GB/s")]
        for (action, name, device), group in sorted(groups.items(), key=lambda item: -sum(each.on_device or each.host for each in item[1])):
            times = [each.on_device for each in group if each.on_device is not None]
            host, on_device = sum(each.host for each in group), sum(times)
            seconds = on_device if times else host
            nbytes = sum(each.nbytes for each in group)
            rate = f"{nbytes / seconds / 1e9:.3g}" if nbytes and seconds and action in ("launch", "copy") else ""
            label = name if action in ("launch", "copy") else f"{action} {name}"
            rows.append((label, device, str(len(group)), duration_text(host), duration_text(on_device) if times else "", rate))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            pairs = zip(row, widths, strict=True)
            cells = [cell.ljust(width) if number < 2 else cell.rjust(width) for number, (cell, width) in enumerate(pairs)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a trace in Chrome's format, for https://ui.perfetto.dev: a track for each thread, and one for each device."""
        events: list[dict[str, Any]] = []
        devices: dict[str, int] = {}
        for entry in self._entries:
            each = self._record(entry)
            events.append(_trace_event(each, each.thread, 1, each.start, each.host))
            if each.on_device is not None:
                track = devices.setdefault(each.device, len(devices) + 1)
                start = self._on_device[id(entry)][0] + self._late[each.device]
                events.append(_trace_event(each, track, 2, start, each.on_device))
        names = [{"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}} for name, pid in (("host", 1), ("device", 2))]
        tracks = [{"name": "thread_name", "ph": "M", "pid": 2, "tid": tid, "args": {"name": name}} for name, tid in devices.items()]
        Path(path).write_text(json.dumps({"traceEvents": [*names, *tracks, *events], "displayTimeUnit": "ns"}), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Profile of {len(self._entries)} records>"

    # -- recording

    def _methods(self) -> Methods:
        methods: dict[tuple[type, str], Callable[[Callable[..., Any]], Callable[..., Any]]] = {
            (Function, "__call__"): self._call,
            (Function, "caller"): self._caller,
            (Function, "_build"): partial(self._outermost, about=lambda function, device: ("build", function.name, device, 0)),
            (Function, "bind"): self._bind,
        }
        for base in (Device, Stream):
            methods[base, "__init_subclass__"] = self._watch(base)
            for owner in _classes(base):
                methods |= self._methods_of(owner)
        return methods

    def _watch(self, base: Any) -> Callable[[Any], Any]:
        """Return what replaces `__init_subclass__`: it records the methods of classes that a driver's import defines later."""

        def make(original: Any) -> Any:
            def new_class(owner: Any, /, **keywords: Any) -> None:
                before = super(base, owner).__init_subclass__ if original is None else original.__get__(None, owner)
                before(**keywords)
                self._stack.enter_context(replaced(self._methods_of(owner), order=1))

            return classmethod(new_class)

        return make

    def _methods_of(self, owner: type) -> dict[tuple[type, str], Callable[[Callable[..., Any]], Callable[..., Any]]]:
        """Return what replaces the methods of a class of devices or streams that copy and wait."""
        found: dict[tuple[type, str], Callable[[Callable[..., Any]], Callable[..., Any]]] = {}
        for name, (text, position) in _COPIES.items():
            if name in owner.__dict__:
                found[owner, name] = partial(self._copy, name=text, position=position)
        if "synchronize" in owner.__dict__:
            found[owner, "synchronize"] = partial(
                self._outermost, about=lambda queue: ("wait", "the device", getattr(queue, "device", queue), 0)
            )
        return found

    def _outermost(self, original: Callable[..., Any], about: Callable[..., tuple[str, str, Any, int]]) -> Callable[..., Any]:
        """Return a method that records its time, unless another recorded method of devices or streams has called it."""
        local = self._local

        @wraps(original)
        def recorded(*args: Any, **keywords: Any) -> Any:
            if local.inside:
                return original(*args, **keywords)
            local.inside = True
            begin = perf_counter_ns()
            try:
                return original(*args, **keywords)
            finally:
                end = perf_counter_ns()
                local.inside = False
                action, name, device, nbytes = about(*args)
                self._entries.append((action, name, device_label(device), begin, end, nbytes, get_ident()))

        return recorded

    def _copy(self, original: Callable[..., Any], name: str, position: int) -> Callable[..., Any]:
        def about(*args: Any) -> tuple[str, str, Any, int]:
            data = args[position]
            return "copy", name, args[0], data if isinstance(data, int) else data.nbytes

        return self._outermost(original, about)

    def _call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local = self._local

        @wraps(original)
        def recorded(function: Function, /, *args: Any, **keywords: Any) -> Any:
            nbytes = local.nbytes = sum(getattr(each, "nbytes", 0) for each in (*args, *keywords.values()))
            local.device = ""
            begin = perf_counter_ns()
            try:
                return original(function, *args, **keywords)
            finally:
                self._entries.append(("call", function.name, local.device, begin, perf_counter_ns(), nbytes, get_ident()))

        return recorded

    def _caller(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local = self._local

        @wraps(original)
        def caller(function: Function, key: Any, kernel: Any, stream: Stream, shape: Any, set_sizes: Any) -> Any:
            enqueue = original(function, key, kernel, stream, shape, set_sizes)
            kept = function._callers.get(key)
            if kept is not None:  # another thread may have begun or ended a profile
                function._callers[key] = self._launch(kept, function, stream, lambda: local.nbytes)
                if self not in _profiles:
                    _forget_callers(function)
            return self._launch(enqueue, function, stream, lambda: local.nbytes)

        return caller

    def _bind(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def bind(*args: Any, **keywords: Any) -> Launch:
            launch: Launch = original(*args, **keywords)
            _record_launch(launch)
            return launch

        return bind

    def _prepared(self, original: Callable[..., Any], launch: Launch) -> Callable[..., Any]:
        """Return what records the calls of a prepared launch."""
        nbytes = sum(getattr(each, "nbytes", 0) for each in launch._values[1])
        return self._launch(original, launch.function, launch.stream, lambda: nbytes)

    def _launch(self, original: Callable[..., Any], function: Function, stream: Stream, nbytes_of: Callable[[], int]) -> Callable[..., Any]:
        """Return a function that queues a launch and records it."""
        name, device, kind, local, add = function.name, device_label(stream.device), stream.device.kind, self._local, self._entries.append

        def recorded(*args: Any, **keywords: Any) -> Any:
            local.device = device
            begin = perf_counter_ns()
            result = original(*args, **keywords)
            if result is not NotImplemented:  # then the call takes another path
                add(("launch", name, device, begin, perf_counter_ns(), nbytes_of(), get_ident()))
            return result

        def recorded_with_events(*args: Any, **keywords: Any) -> Any:
            local.device = device
            first = self._event(stream, device)
            begin = perf_counter_ns()
            result = original(*args, **keywords)
            if result is not NotImplemented:
                entry = ("launch", name, device, begin, perf_counter_ns(), nbytes_of(), get_ident())
                add(entry)
                last = self._event(stream, device)
                if first is not None and last is not None:
                    self._pending.append(_Pending(entry, first, last))
                    if len(self._pending) >= _MOST_EVENTS:
                        self._read_times()
            return result

        record = recorded_with_events if self._device_times else recorded

        def passed_on(*args: Any, **keywords: Any) -> Any:
            result = record(*args, **keywords)
            if result is not NotImplemented:
                own = next(each for each in reversed(self._entries) if each[0] == "launch" and each[-1] == get_ident())
                self._pass_on(kind, self._record(own))
            return result

        return passed_on if self._hooked else record

    def _pass_on(self, kind: str, record: Record) -> None:
        """Call the hooks ``devmod_launch``. An error of theirs is a warning, one for each distribution, and not an error of the launch."""
        try:
            hooks.call("devmod_launch", kind=kind, record=record)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            provider = _provider_of(kind, error)
            if provider not in self._warned:
                self._warned.add(provider)
                import warnings

                text = f"the hook devmod_launch of {provider} failed: {describe_error(error)}. The launch is not affected; the profile "
                warnings.warn(f"{text}hides further errors of the hook", RuntimeWarning, stacklevel=4)

    # -- times on the device

    def _event(self, stream: Stream, device: str) -> Event | None:
        """Return an event at the end of the stream's queue; None if the device has no times."""
        if device in self._untimed:
            return None
        local = self._local
        inside, local.inside = local.inside, True
        try:
            event = stream.record()
        finally:
            local.inside = inside
        if device not in self._first:
            self._first[device] = event, (perf_counter_ns() - self._start) * 1e-9
        return event

    def _read_times(self) -> None:
        """Wait for the recorded launches, and set their times on the device."""
        pending, self._pending = self._pending, []
        if os.getpid() != self._process:
            return  # the driver is the parent's
        inside, self._local.inside = self._local.inside, True
        try:
            for entry, first, last in pending:
                self._read_time(entry, first, last)
        finally:
            self._local.inside = inside

    def _read_time(self, entry: _Entry, first: Event, last: Event) -> None:
        device = entry[2]
        if device in self._untimed:
            return
        try:
            last.synchronize()
            base, start = self._first[device]
            begin = start + (first.elapsed(base) if first is not base else 0.0)
            self._on_device[id(entry)] = begin, last.elapsed(first)
        except DevmodError:  # a kind or a device without time stamps
            self._untimed.add(device)
        else:
            self._late[device] = max(self._late.get(device, 0.0), (entry[3] - self._start) * 1e-9 - begin)


def profile(*, device_times: bool = True) -> Profile:
    """Record each call, launch, copy, build and wait of a part of a program.

    Parameters
    ----------
    device_times
        Whether to put an event of the stream before and after each launch, whose difference is the time on the device. It costs what the
        driver takes for two events; docs/profiling.md has the figures.

    Returns
    -------
    Profile
        A context manager, with `records`, `table()` and `save(path)`.

    Notes
    -----
    Other tracers get each launch by the hook ``devmod_launch``, as it is queued. A hook that raises an error does not stop the launch: a
    RuntimeWarning names its distribution, once in a profile.
    """
    return Profile(device_times=device_times)


#: The active profiles, in the order in which they began.
_profiles: list[Profile] = []
#: Of each recorded prepared launch: what it called before, and what it calls now.
_prepared: WeakKeyDictionary[Launch, tuple[Callable[..., Any], Callable[..., Any]]] = WeakKeyDictionary()
_lock = threading.Lock()


def _end(profile: Profile) -> None:
    _profiles.remove(profile)
    _renew()


def _renew() -> None:
    """Let all functions and prepared launches be recorded by the active profiles alone."""
    for reference in tuple(references):
        each = reference()
        if isinstance(each, Launch):
            _record_launch(each)
        elif each is not None:
            _forget_callers(each)


def _record_launch(launch: Launch) -> None:
    """Let a prepared launch be recorded by the active profiles alone."""
    with _lock:
        original, present = _prepared.pop(launch, (launch.__call__, launch.__call__))
        if launch.__call__ is not present:
            return  # the child of a fork, where it raises an error
        new = original
        for each in _profiles:
            new = each._prepared(new, launch)
        object.__setattr__(launch, "__call__", new)
        if new is not original:
            _prepared[launch] = original, new


def _forget_callers(function: Function) -> None:
    """Let the next call of a function ask for its callers again."""
    function._callers.clear()
    function._host_calls.clear()


def _provider_of(kind: str, error: Exception) -> str:
    """Return the distribution of the hook that has raised an error, by the code in its traceback."""
    codes = {frame.f_code for frame, _ in walk_tb(error.__traceback__)}
    for claim in registry.claims("devmod.hooks"):
        if claim.name in ("devmod_launch", f"devmod_launch.{kind}"):
            with suppress(Exception):  # one that cannot be loaded: its error has the name
                if getattr(registry.load_claim(claim).devmod_launch, "__code__", None) in codes:
                    return claim.provider if claim.distribution else "this program"
    return "a plugin"


def _classes(base: type) -> Iterator[type]:
    """Yield a class and all that derive from it."""
    yield base
    subclasses: list[type] = base.__subclasses__()
    for each in subclasses:
        yield from _classes(each)


def duration_text(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _trace_event(record: Record, track: int, pid: int, start: float, seconds: float) -> dict[str, Any]:
    about = {"device": record.device, "bytes": record.nbytes}
    name = record.name if record.action in ("call", "launch") else f"{record.action}: {record.name}"
    return {"name": name, "cat": record.action, "ph": "X", "pid": pid, "tid": track, "ts": start * 1e6, "dur": seconds * 1e6, "args": about}
