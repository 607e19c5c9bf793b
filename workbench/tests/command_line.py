"""The command line in the process of a test."""

from __future__ import annotations

import re

import pytest

from devmod.backend import LAUNCH_KEYWORDS
from devmod_workbench._cli import main

#: A keyword of Python's call, in place of an option of a command that launches.
KEYWORD = re.compile(rf"(?<![\w.-])({'|'.join(LAUNCH_KEYWORDS)})=")
LAUNCHERS = ("run", "bench", "verify")


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Return the exit status of a command, and what it prints to the standard output and the
    standard error.
    """
    capsys.readouterr()
    status = main([*map(str, words)])
    out, err = capsys.readouterr()
    assert "--debug" in words or "Traceback" not in out + err
    if words[:1] and words[0] in LAUNCHERS and "--debug" not in words:
        assert not KEYWORD.search(err), err
    return status, out, err


def printed_by(
    captured: pytest.CaptureFixture[str], *words: object, status: int = 0
) -> pytest.CaptureResult[str]:
    """Return what a command prints, which ends with a status."""
    found = main([*map(str, words)])
    result = captured.readouterr()
    assert found == status, result.err
    return result
