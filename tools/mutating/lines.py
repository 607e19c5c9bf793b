"""Mark each executed line of some sources in a file that all processes of a test share.

`tools/mutations.py` plants the execution of this text in the package of core, so it runs in each
process that imports devmod, also in one without site-packages. `FOLDER` has the file `lines`, with
a byte for each line, and the file `sources`, with the first byte of each source. A copy of the
sources in another folder has no lines there.
"""

from __future__ import annotations

import mmap
import sys
import threading
from types import FrameType
from typing import Any

_folder: str = globals()["FOLDER"]

with open(f"{_folder}/lines", "r+b") as _file:
    _lines = mmap.mmap(_file.fileno(), 0)


def _local(start: int) -> Any:
    def mark(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            _lines[start + frame.f_lineno] = 1
        return mark

    return mark


_marks = {}
with open(f"{_folder}/sources", encoding="utf-8") as _sources:
    for _line in _sources:
        _start, _, _path = _line.rstrip("\n").partition(" ")
        _marks[_path] = _local(int(_start))


def trace(frame: FrameType, event: str, argument: object) -> Any:
    """Start to mark the lines of a frame, if they are those of a source."""
    mark = _marks.get(frame.f_code.co_filename)
    if mark is None:
        return None
    return mark(frame, event, argument)


threading.settrace(trace)
sys.settrace(trace)
