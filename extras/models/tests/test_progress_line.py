"""The line of progress of the functions of Python."""

from __future__ import annotations

import io
import re
import sys
from time import monotonic, sleep

import pytest

from devmod_models import _progress

#: A process that hangs ends after this.
LIMIT = 120


class Stream(io.StringIO):
    """Standard error."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown(
    monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, progress: bool | None, seconds: float
) -> str:
    """What work of two phases writes, each of which waits for its line."""
    stream = Stream(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(_progress, "SECONDS", seconds)
    with _progress.progress_line("net", progress=progress) as show:
        for phase in ("tracing", "kernel 1 of\x1b2"):
            show(phase)
            end = monotonic() + LIMIT
            name = phase.partition("\x1b")[0]
            while seconds < 1 and f"net: {name}" not in stream.getvalue() and monotonic() < end:
                sleep(0.01)
    return stream.getvalue()


def test_a_terminal_has_one_line_that_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, is_terminal=True, progress=None, seconds=0.01)
    line = r"(\r\x1b\[Knet: {}, \d+ s)+"
    assert re.fullmatch(
        line.format("tracing") + line.format(r"kernel 1 of\\x1b2") + r"\r\x1b\[K", text
    )


def test_a_pipe_has_a_line_for_each_phase_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, is_terminal=False, progress=True, seconds=0.01)
    assert re.fullmatch(r"net: tracing, \d+ s\nnet: kernel 1 of\\x1b2, \d+ s\n", text)


@pytest.mark.parametrize(
    ("is_terminal", "progress", "seconds"),
    [(False, None, 1), (True, False, 1), (True, None, 600), (False, True, 600)],
)
def test_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, progress: bool | None, seconds: float
) -> None:
    """In a pipe, to whom it is refused, and for work that ends at once."""
    assert not shown(monkeypatch, is_terminal=is_terminal, progress=progress, seconds=seconds)
