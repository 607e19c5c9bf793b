"""KeyboardInterrupt at each place of a use where CPython looks at signals: one process of
`test_interrupt_places.py`.

usage: interrupt_places.py KIND FOLDER USE SEED PLACES

USE is the number of a use in USES, or of the end of Python after them. PLACES is the number of
places, chosen by SEED; 0 is all of them. A forked child for each place raises KeyboardInterrupt
there once. Then every use must work.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from interrupts import BLOCK, module_of

import devmod

#: The watch of the end of Python. It ends after the other functions of atexit.
watches: list[Watch] = []
atexit.register(lambda: [each.stop() for each in watches])
#: Seconds after which a child hangs. The stacks of its threads are then written.
HANGS = 60
#: The function, the instruction and the event.
Place = tuple[str, str, int, int, str]


class Uses:
    """The uses of a backend, in their order. Each needs those before it.

    Parameters
    ----------
    kind
        The kind.
    folder
        A folder, which has the saved module.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.saved = folder / "add.devmod"
        self.ones = np.ones(BLOCK, "uint32")

    def create(self) -> None:
        """Write the module that `load` loads."""
        devmod.save(module_of(self.kind), self.saved)

    def open(self) -> None:
        """The first use of the driver."""
        self.device = devmod.device(self.kind)

    def load(self) -> None:
        """The load of a module, and its build."""
        self.module = devmod.load(self.saved)
        self.function = self.module["add"].on(self.device)

    def save(self) -> None:
        """The save of a module."""
        devmod.save(self.module, self.saved.with_name(f"{os.getpid()}.devmod"))

    def call(self) -> None:
        """A call with arrays of the host, and one with those of the device."""
        y = np.zeros(BLOCK, "uint32")
        self.function(y=y, x=self.ones, grid=1, block=BLOCK)
        assert (y == 1).all()
        y = self.device.from_numpy(y)
        self.function(y=y, x=self.device.from_numpy(self.ones), grid=1, block=BLOCK)
        assert (y.numpy() == 2).all()

    def enter(self) -> None:
        """A ``with`` of each kind: of a target, of a stream and of a batch."""
        y = self.device.zeros(BLOCK, "uint32")
        x = self.device.from_numpy(self.ones)
        with devmod.Target(self.kind):
            pass
        with self.device.stream() as stream, stream.batch():
            self.function(y=y, x=x, grid=1, block=BLOCK)
        stream.synchronize()
        assert (y.numpy() == 1).all()

    def all(self) -> None:
        """Every use."""
        for use in USES:
            use(self)


USES: list[Callable[[Uses], None]] = [Uses.open, Uses.load, Uses.save, Uses.call, Uses.enter]


# -- places


class Watch:
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

    def start(self) -> None:
        """Begin. This file has no places."""
        watches.append(self)
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

    def _after_call(self, code: Any, offset: int, *_: object) -> None:
        self._at(code, offset, "return")

    def _at_start(self, code: Any, offset: int) -> None:
        self._at(code, offset, "start")

    def _at_jump(self, code: Any, offset: int, target: int) -> None:
        if target < offset:
            self._at(code, offset, "jump")

    def _profile(self, frame: Any, event: str, _: object) -> None:
        if event == "c_return":
            self._at(frame.f_code, frame.f_lasti, "return")
        elif event == "call":
            self._at(frame.f_code, frame.f_lasti, "start")

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
            self._reach((code.co_filename, code.co_qualname, code.co_firstlineno, offset, event))


class Interrupt:
    """Raises KeyboardInterrupt at one place of what runs between `start` and `stop`."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._watch = Watch(self._reach)
        self.is_raised = False
        self.start, self.stop = self._watch.start, self._watch.stop

    def _reach(self, place: Place) -> None:
        if place == self._place:
            self.is_raised = True
            self.stop()
            raise KeyboardInterrupt


# -- children


def in_child(action: Callable[[], object], log: Path) -> int:
    """Run an action in a forked child that then exits. Return its exit code.

    A child that hangs ends with code 1, and its stacks are in the log. So is what it prints.
    """
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.dump_traceback_later(HANGS, exit=True)
    action()
    sys.exit()


def interrupt(uses: Uses, number: int, place: Place) -> None:
    """Interrupt the use with a number. Then every use must work."""
    sys.unraisablehook = lambda _: None  # that of a finalizer is lost
    for use in USES[:number]:
        use(uses)
    if number == len(USES):  # the end of Python
        Interrupt(place).start()
        return
    interrupt = Interrupt(place)
    try:
        interrupt.start()
        try:
            USES[number](uses)
        finally:
            interrupt.stop()
    except KeyboardInterrupt as error:
        sys.last_value = error  # a prompt keeps it, and with it what its frames have
    uses.all()
    print(MARK, interrupt.is_raised)


#: A line of a child whose uses worked.
MARK = "all uses work:"


def record(uses: Uses, number: int, results: Path) -> None:
    """Write the places of a use, in the order in which it reaches them."""
    for use in USES[:number]:
        use(uses)
    file = os.open(results, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    places: set[Place] = set()

    def reach(place: Place) -> None:
        if place not in places:
            places.add(place)
            os.write(file, json.dumps(place).encode() + b"\n")

    watch = Watch(reach)
    watch.start()
    if number < len(USES):  # else the end of Python is watched
        USES[number](uses)
        watch.stop()


def main(kind: str, folder: Path, number: int, seed: int, count: int) -> None:
    """Interrupt a use at its places. Print the number of places and the failures."""
    uses = Uses(kind, folder)
    log, results = folder / "log", folder / "places"
    assert in_child(uses.create, log) == 0, log.read_text()
    assert in_child(lambda: record(uses, number, results), log) == 0, log.read_text()
    places = [tuple(json.loads(line)) for line in results.read_text().splitlines()]
    chosen = places
    if count:
        chosen = random.Random(seed).sample(places, min(count, len(places)))
    reached = 0
    failures = 0
    for place in chosen:
        code = in_child(lambda place=place: interrupt(uses, number, place), log)  # type: ignore[misc]
        text = log.read_text()
        reached += f"{MARK} True" in text
        if code or (number < len(USES) and MARK not in text):
            failures += 1
            print(f"{place}: exit code {code}\n{text}", flush=True)
    print(f"{len(chosen)} of {len(places)} places, {reached} reached, {failures} failures")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
