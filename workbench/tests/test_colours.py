"""Colours of commands: in a terminal alone, and the text is the same without them."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from devmod_workbench._cli import _output, main

CODES = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_with_colours(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make the standard output a terminal. pytest replaces it after the fixtures."""
    result = Terminal()
    monkeypatch.setattr(sys, "stdout", result)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    return result


MARKS = ((r"^(\w+):", "name"), (r"failed", "bad"), (r"\w+ failed", "good"))


def test_marks_are_styled_in_a_terminal_and_the_text_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = terminal_with_colours(monkeypatch)
    _output.echo_lines("one: 2 failed\ntwo: \x1b[31mred\x1b[0m", marks=MARKS)
    text = terminal.getvalue()
    # Of two marks that overlap, the first in the text is styled. A stranger's codes are escaped.
    assert text == (
        "\x1b[1mone\x1b[0m: \x1b[38;5;28m\x1b[1m2 failed\x1b[0m\n\x1b[1mtwo\x1b[0m: \\x1b[31mred\\x1b[0m\n"
    )


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_wants_no_colours_gets_none(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    terminal = terminal_with_colours(monkeypatch)
    monkeypatch.setenv(name, value)
    _output.echo("one: 2 failed", marks=MARKS)
    _output.print_table(("name", "state"), [("x", "failed")], marks=MARKS)
    assert "\x1b" not in terminal.getvalue()
    assert "failed" in terminal.getvalue()


def test_a_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    _output.echo("one: 2 failed", marks=MARKS)
    _output.print_table(("name", "state"), [("x", "failed")], marks=MARKS)
    _output.print_table(("name", "state"), [("x", "failed")], plain=["x: failed"])
    assert capsys.readouterr().out == "one: 2 failed\nname  state\nx     failed\nx: failed\n"


@pytest.mark.parametrize("kind", ["xterm", "xterm-256color", "screen", "linux"])
def test_a_table_has_the_same_colours_in_each_terminal(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    terminal = terminal_with_colours(monkeypatch)
    monkeypatch.setenv("TERM", kind)
    _output.print_table(("name", "state"), [("x", "failed")], marks=MARKS[1:2])
    assert "│ \x1b[1;38;5;160mfailed\x1b[0m │" in terminal.getvalue()


def test_compile_inspect_and_verify_have_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = terminal_with_colours(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("k.cl").write_text("kernel void f(global float *x) { x[get_global_id(0)] *= 2; }")
    assert main(["compile", "k.cl", "-t", "opencl", "-t", "vulkan", "-o", "k.devmod"]) == 0
    compiled = terminal.getvalue()
    assert "│ vulkan │ spv    │ f         │" in CODES.sub("", compiled)
    assert "\x1b[1mk.devmod\x1b[0m: " in compiled

    terminal.truncate(0)
    assert main(["inspect", "k.devmod"]) == 0
    inspected = terminal.getvalue()
    assert "  \x1b[38;5;30m\x1b[1mopencl cl\x1b[0m, " in inspected
    assert "    \x1b[1mf\x1b[0m(x: float32* rw) any block\n" in inspected

    terminal.truncate(0)
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", "devmod-core,devmod-workbench,devmod-readers")
    main(["verify", "k.devmod"])
    verified = terminal.getvalue()
    assert re.search(r"│ \x1b\[1;38;5;164m(left out|not compared)", verified), verified
    assert "outcome" in verified


def test_an_error_is_red_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_with_colours(monkeypatch)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["doctor", "nothing"]) == 1
    assert terminal.getvalue().startswith("\x1b[38;5;160m\x1b[1mdevmod: error:\x1b[0m doctor: ")


def test_the_beginning_of_each_message_is_styled(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_with_colours(monkeypatch)
    monkeypatch.setattr(sys, "stderr", terminal)
    for level in ("error", "warning", "note"):
        _output.echo(f"devmod: {level}: x", err=True)
    plain = CODES.sub("", terminal.getvalue())
    assert plain == "devmod: error: x\ndevmod: warning: x\ndevmod: note: x\n"
    assert terminal.getvalue().count(":\x1b[0m x\n") == 3
    terminal.truncate(0)
    _output.echo("devmod: warning: x")
    assert "\x1b" not in terminal.getvalue()


def luminance(colour: tuple[int, ...]) -> float:
    """Return the relative luminance by WCAG."""
    parts = []
    for each in colour:
        value = each / 255
        parts.append(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4)
    red, green, blue = parts
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("style", ["kind", "good", "bad", "care"])
def test_each_colour_can_be_read_on_black_and_on_white(style: str) -> None:
    number = _output.STYLES[style]["fg"] - 16  # in xterm's cube of 6 × 6 × 6
    levels = (0, 95, 135, 175, 215, 255)
    light = luminance(tuple(levels[number // step % 6] for step in (36, 6, 1)))
    assert (light + 0.05) / 0.05 > 3.8
    assert 1.05 / (light + 0.05) > 3.8
