"""KeyboardInterrupt at the places of a use where CPython looks at signals.

Random moments do not find a place that lasts microseconds. So a forked child raises
KeyboardInterrupt at one place of a use, and then every use must work in it.

A place is an instruction of a function: numbers of events differ from process to process. CPython
looks at signals when a function of C returns, when a function of Python begins, and at a jump
backward.
"""

from __future__ import annotations

import atexit
import faulthandler
import json
import os
import random
import sys
from _thread import get_ident
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from devmod.errors import describe_error
from devmod.worker import describe_exit

#: Seconds after which a child hangs. The stacks of its threads are then written.
HANGS = 60.0
#: The event of a place where a lock was just acquired: an interrupt there is before any ``try``.
LOCKED = "acquired a lock"
_LOCKS = ("acquire", "acquire_lock")
_SEED = 1
#: Lines of a child: it was interrupted, and every use worked.
_INTERRUPTED = "KeyboardInterrupt at:"
_WORKED = "every use works"
#: The begin of a line of a child whose use raises.
_RAISES = "a use raises "


class Place(NamedTuple):
    """An instruction of a function.

    Attributes
    ----------
    file, function, line
        The function's file, its name and the line where it begins.
    offset
        The instruction.
    event
        Why CPython looks at signals.
    """

    file: str
    function: str
    line: int
    offset: int
    event: str


@dataclass(frozen=True)
class Outcome:
    """What came of an interrupt.

    Attributes
    ----------
    place
        The place.
    is_reached
        Whether the child reached it.
    failure
        What failed; "" if every use worked.
    log
        What the child printed: the stack at the place, and those of all threads if it hung.
    """

    place: Place
    is_reached: bool
    failure: str
    log: str


class _Watch:
    """Calls a function at each place of this thread, until that raises or `stop` is called.

    Parameters
    ----------
    reach
        The function. What it raises is raised at the place.
    """

    def __init__(self, reach: Callable[[Place], None]) -> None:
        self._reach = reach
        self._thread = get_ident()
        #: The last instruction of each frame.
        self._last: dict[Any, int] = {}
        # At the end of Python it ends after the functions that the uses register.
        atexit.register(self.stop)

    def start(self) -> None:
        """Begin. This file has no places."""
        if sys.version_info >= (3, 12):
            self._start_monitoring()
        else:
            sys.settrace(self._trace)
            sys.setprofile(self._profile)

    def stop(self) -> None:
        """End."""
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
        else:
            sys.setprofile(None)
            sys.settrace(None)

    def _start_monitoring(self) -> None:
        if sys.version_info >= (3, 12):
            monitoring = sys.monitoring
            tool, events = monitoring.PROFILER_ID, monitoring.events
            if monitoring.get_tool(tool) is None:
                monitoring.use_tool_id(tool, "places")
            monitoring.register_callback(tool, events.C_RETURN, self._after_call)
            monitoring.register_callback(tool, events.PY_START, self._at_start)
            monitoring.register_callback(tool, events.JUMP, self._at_jump)
            # C_RETURN comes with CALL alone.
            monitoring.set_events(tool, events.CALL | events.PY_START | events.JUMP)

    def _after_call(self, code: Any, offset: int, function: object, *_: object) -> None:
        event = "return"
        if getattr(function, "__name__", "") in _LOCKS:
            event = LOCKED
        self._at(code, offset, event)

    def _at_start(self, code: Any, offset: int) -> None:
        self._at(code, offset, "start")

    def _at_jump(self, code: Any, offset: int, target: int) -> None:
        if target < offset:
            self._at(code, offset, "jump")

    def _profile(self, frame: Any, event: str, function: object) -> None:
        if event == "c_return":
            self._after_call(frame.f_code, frame.f_lasti, function)
        elif event == "call":
            self._at_start(frame.f_code, frame.f_lasti)

    def _trace(self, frame: Any, event: str, _: object) -> Any:
        if event == "line":
            if frame.f_lasti <= self._last.get(frame, -1):
                self._at(frame.f_code, frame.f_lasti, "jump")
            self._last[frame] = frame.f_lasti
        elif event == "return":
            self._last.pop(frame, None)
        return self._trace

    def _at(self, code: Any, offset: int, event: str) -> None:
        if get_ident() == self._thread and code.co_filename != __file__:
            place = (code.co_filename, code.co_qualname, code.co_firstlineno, offset, event)
            self._reach(Place(*place))


class _Interrupt(_Watch):
    """Raises KeyboardInterrupt at one place of what runs between `start` and `stop`."""

    def __init__(self, place: Place) -> None:
        super().__init__(self._raise)
        self._place = place

    def _raise(self, place: Place) -> None:
        if place != self._place:
            return
        self.stop()
        os.write(2, f"{_INTERRUPTED}\n".encode())
        faulthandler.dump_traceback(2, all_threads=False)
        raise KeyboardInterrupt


def in_child(action: Callable[[], object], seconds: float = HANGS) -> tuple[int, str]:
    """Run an action in a forked child that then exits. Return its exit status or signal, and what
    it printed.

    A child that takes longer than `seconds` prints the stacks of its threads and ends with status
    1.
    """
    if sys.platform == "win32":
        raise OSError("Windows has no forks")
    with TemporaryFile() as log:
        child = os.fork()
        if not child:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            faulthandler.dump_traceback_later(seconds, exit=True, file=2)
            action()
            sys.exit()
        _, status = os.waitpid(child, 0)
        log.seek(0)
        return os.waitstatus_to_exitcode(status), log.read().decode("utf-8", "replace")


def record_places(
    uses: Sequence[Callable[[], object]], number: int, seconds: float = HANGS
) -> list[Place]:
    """Return the places of a use, in the order in which it reaches them.

    Parameters
    ----------
    uses
        The uses. Each needs those before it.
    number
        The number of the use, or of the end of Python after them.
    seconds
        The time limit of the child.

    Raises
    ------
    RuntimeError
        A use fails without an interrupt. The text is what it prints.
    """
    with TemporaryFile() as file:
        code, log = in_child(lambda: _record(uses, number, file.fileno()), seconds)
        if code:
            raise RuntimeError(log)
        file.seek(0)
        return [Place(*json.loads(line)) for line in file]


def _record(uses: Sequence[Callable[[], object]], number: int, file: int) -> None:
    file = os.dup(file)  # it is closed before the end of Python
    places: set[Place] = set()

    def reach(place: Place) -> None:
        if place not in places:
            places.add(place)
            os.write(file, json.dumps(place).encode() + b"\n")

    watch = _Watch(reach)
    for use in uses[:number]:
        use()
    watch.start()
    if number < len(uses):  # else the end of Python is watched
        uses[number]()
        watch.stop()


def choose_places(
    places: Sequence[Place], count: int, own: Collection[str] = (), seed: int = _SEED
) -> Sequence[Place]:
    """Return a sample of places: those where a lock was just acquired, and `count` others.

    Parameters
    ----------
    places
        The places.
    count
        The number of others; 0 selects all places.
    own
        The names of packages. Half of the others is in them, if they have as many.
    seed
        The seed of the sample.
    """
    if not count:
        return places
    generator = random.Random(seed)  # noqa: S311 - no secret
    at_locks = [place for place in places if place.event == LOCKED]
    others = [place for place in places if place.event != LOCKED]
    of_own = [place for place in others if not set(own).isdisjoint(place.file.split(os.sep))]
    sample = generator.sample(of_own, min(count // 2, len(of_own)))
    others = [place for place in others if place not in sample]
    sample += generator.sample(others, min(count - len(sample), len(others)))
    return at_locks + sample


def interrupt_places(
    uses: Sequence[Callable[[], object]],
    number: int,
    places: Sequence[Place],
    seconds: float = HANGS,
) -> Iterator[Outcome]:
    """Interrupt a use at each of these places, in a child each. Yield the outcomes.

    The parameters are those of `record_places`.
    """
    for place in places:
        code, log = in_child(lambda place=place: _interrupt(uses, number, place), seconds)  # type: ignore[misc]
        failure = ""
        if "\nTimeout (" in f"\n{log}":
            failure = "the process hangs"
        elif code:
            failure = _error_in(log) or f"the process {describe_exit(code)}"
        elif number < len(uses) and _WORKED not in log:
            failure = "the process ends before every use has worked"
        yield Outcome(place, _INTERRUPTED in log, failure, log)


def _error_in(log: str) -> str:
    """Return the line of a child whose use raised, or ""."""
    for line in log.splitlines():
        if line.startswith(_RAISES):
            return line
    return ""


def _interrupt(uses: Sequence[Callable[[], object]], number: int, place: Place) -> None:
    """Interrupt the use with a number. Then that use and every use must work."""
    sys.unraisablehook = lambda _: None  # that of a finalizer is lost
    interrupt = _Interrupt(place)
    for use in uses[:number]:
        use()
    if number == len(uses):  # the end of Python
        interrupt.start()
        return
    try:
        interrupt.start()
        try:
            uses[number]()
        finally:
            interrupt.stop()
    except (KeyboardInterrupt, RuntimeError) as error:
        # CPython 3.11 raises RuntimeError from what `__set_name__` raises, in the body of a class.
        if KeyboardInterrupt not in (type(error), type(error.__cause__)):
            raise
        sys.last_value = error  # a prompt keeps it, and with it what its frames have
    try:
        for use in (uses[number], *uses):
            use()
    except Exception as error:
        os.write(1, f"{_RAISES}{describe_error(error)}\n".encode())
        raise
    os.write(1, f"{_WORKED}\n".encode())
