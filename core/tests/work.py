"""The work of a call as a count of Python's calls, lines and jumps: the same on a loaded machine,
unlike its time. pytest's `pythonpath` has this folder.

Every turn of a loop and every call counts. So the count grows like that of all bytecodes, of which
there are four to five for each, and counting takes a third of the time.
"""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

import devmod

#: A call with more events does not end in any useful time: about a minute.
MOST = 25_000_000
#: Bytes of memory for a byte of the file: far above what reading takes, far below what it took.
MOST_MEMORY = 50


def work(call: Callable[[], object], most: int = MOST) -> int:
    """Return the number of events of a call, or fail after `most`. What a function of C does is not
    counted, nor what other threads do.
    """
    gc.disable()  # the finalizers of other tests' objects are no work of this call
    try:
        return (_trace if sys.version_info < (3, 12) else _monitor)(call, most)
    finally:
        gc.enable()


def _trace(call: Callable[[], object], most: int) -> int:
    count = 0

    def each(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1  # a jump backwards is the event of a line too, also within one line
        assert count <= most, f"more than {most} events"
        return each

    before = sys.gettrace()
    sys.settrace(each)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _monitor(call: Callable[[], object], most: int) -> int:
    count = 0
    own = threading.get_ident()

    def each(code: CodeType, *places: int) -> None:
        nonlocal count
        # A trace is of one thread too. Waits for a device may be in another, some of them.
        if threading.get_ident() != own:
            return
        count += 1
        assert count <= most, f"more than {most} events"

    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    events = monitoring.events
    tool, counted = 3, (events.PY_START, events.PY_RESUME, events.LINE, events.JUMP)
    monitoring.use_tool_id(tool, "work")
    try:
        for event in counted:
            monitoring.register_callback(tool, event, each)
        monitoring.set_events(tool, sum(counted))
        call()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    return count


def assert_linear(call: Callable[[int], Callable[[], object]], count: int) -> None:
    """Check that `call(2 * count)` does at most about twice the work of `call(count)`.

    The counts are exact, so a tenth of quadratic work in `call(count)` is too much.
    """
    once, twice = call(count), call(2 * count)
    once()  # imports and caches
    one, two = work(once), work(twice)
    assert two < 2.15 * one, f"{one} events for {count}, {two} for {2 * count}"


def check_reader(make: Callable[[int], bytes], count: int, read: Callable[[bytes], object]) -> None:
    """Check that `read` takes memory in proportion to a file with `count` items, and work to
    smaller ones. An error of devmod is a valid result.
    """

    def attempt(data: bytes) -> None:
        with suppress(devmod.FormatError):
            read(data)

    def call(number: int) -> Callable[[], None]:
        data = make(number)
        return lambda: attempt(data)

    data = make(count // 8)
    # Python compiles the modules that the first call imports, in a clone without their bytecode:
    # 1.4 MB.
    attempt(make(count // 200))
    tracemalloc.start()
    try:
        attempt(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY * len(data) + (1 << 18)
    assert_linear(call, count // 200)


def frames(call: Callable[[], object]) -> list[str]:
    """Return the files of the Python functions that a call calls, without the finalizers of what
    other tests left to the collector.
    """
    files = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            files.append(frame.f_code.co_filename)

    gc.disable()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return files
