"""The work of a call as a count of Python's bytecodes: the same on a loaded machine, unlike its time. pytest's `pythonpath` has this folder."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

#: A call that runs more bytecodes does not end in any useful time: about a minute.
MOST = 100_000_000


def work(call: Callable[[], object], most: int = MOST) -> int:
    """Return the number of bytecodes that a call runs, or fail after `most`. What a function of C does is not counted."""
    gc.collect()
    gc.disable()  # the finalizers of other tests' objects are no work of this call
    try:
        return (_trace if sys.version_info < (3, 12) else _monitor)(call, most)
    finally:
        gc.enable()


def _trace(call: Callable[[], object], most: int) -> int:
    count = 0

    def each(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "opcode"
        assert count <= most, f"more than {most} bytecodes"
        return each

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return each

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _monitor(call: Callable[[], object], most: int) -> int:
    count = 0

    def each(code: CodeType, offset: int) -> None:
        nonlocal count
        count += 1
        assert count <= most, f"more than {most} bytecodes"

    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    tool, event = 3, monitoring.events.INSTRUCTION
    monitoring.use_tool_id(tool, "work")
    try:
        monitoring.register_callback(tool, event, each)
        monitoring.set_events(tool, event)
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
    assert two < 2.15 * one, f"{one} bytecodes for {count}, {two} for {2 * count}"
