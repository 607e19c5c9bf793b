"""The line of progress of the functions of Python that make programs."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from shutil import get_terminal_size
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from devmod.backend import escape_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["progress_line"]

#: The seconds before the line appears, and between its changes.
SECONDS = 1.0
_ERASE = "\r\x1b[K"


class _Line:
    """A line with the phase of the work and its time, which a thread keeps up to date: the work
    may be one call that takes minutes.
    """

    def __init__(self, name: str, stream: TextIO, *, has_lines: bool) -> None:
        self._name = name
        self._stream = stream
        self._has_lines = has_lines
        self._phase = ""
        self._written = ""
        self._start = monotonic()
        self._end = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def show(self, phase: str, _: float = 0.0) -> None:
        """Set the phase."""
        self._phase = phase

    def end(self) -> None:
        """End the thread, and erase the line."""
        self._end.set()
        self._thread.join()
        if self._written and not self._has_lines:
            self._write(_ERASE)

    def _run(self) -> None:
        while not self._end.wait(SECONDS):
            phase = self._phase
            text = escape_line(f"{self._name}: {phase}, {monotonic() - self._start:.0f} s")
            if not self._has_lines:
                self._write(_ERASE + text[: get_terminal_size().columns - 1])
            elif phase != self._written:
                self._write(text + "\n")
            self._written = phase

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the stream is closed
            self._end.set()


@contextmanager
def progress_line(name: str, *, progress: bool | None) -> Iterator[Callable[..., None]]:
    """Yield a function that gets the phase of the work. From its second second on, a line on
    standard error shows it.

    Parameters
    ----------
    name
        What is made.
    progress
        None shows it in a terminal alone, where the line disappears at the end. True shows a line
        for each phase elsewhere too, and False none.
    """
    stream = sys.stderr
    is_terminal = stream is not None and stream.isatty()
    is_shown = progress
    if progress is None:
        is_shown = is_terminal
    if not is_shown or stream is None:
        yield lambda *_: None
        return
    line = _Line(name, stream, has_lines=not is_terminal)
    try:
        yield line.show
    finally:
        line.end()
