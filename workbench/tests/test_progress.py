"""The line about long work: in a terminal alone, and with rich."""

from __future__ import annotations

import re
import sys
from io import StringIO

import pytest

from devmod.commands import progress


class Screen(StringIO):
    """Standard error that is a terminal, or is not."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, quiet: bool = False) -> str:
    screen = Screen(is_terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("reading", quiet=quiet) as show:
        show("comparing [bold]x\x1b[2J")
    return screen.getvalue()


def test_a_terminal_shows_the_work_and_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    text = shown(monkeypatch, is_terminal=True)
    assert "comparing [bold]x\\x1b[2J" in text  # neither markup nor a control character
    assert "0:00:0" in text
    # A colour of the terminal's own may be unreadable on its background.
    assert not re.search(r"\x1b\[(1;)?3[0-8]", text)


def test_standard_output_stays_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands ask whether it is a terminal, and write bytes."""
    pytest.importorskip("rich")
    monkeypatch.setattr(sys, "stderr", Screen(is_terminal=True))
    before = sys.stdout
    with progress("reading"):
        assert sys.stdout is before


@pytest.mark.parametrize(("is_terminal", "quiet"), [(False, False), (True, True)])
def test_a_file_and_a_quiet_command_show_nothing(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, quiet: bool
) -> None:
    assert shown(monkeypatch, is_terminal=is_terminal, quiet=quiet) == ""


def test_nothing_is_shown_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert shown(monkeypatch, is_terminal=True) == ""


def test_standard_error_may_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with progress("reading") as show:
        show("comparing")


def test_work_with_an_end_shows_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("reading", has_end=True) as show:
        show("kernel 1 of 2", 0.25)
        show("kernel 2 of 2", 1.0)
    text = screen.getvalue()
    assert "kernel 2 of 2 " in text
    assert "━" * 20 in text
    assert "--:--" in text or "00:00" in text
