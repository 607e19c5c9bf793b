"""The command line in the process of a test."""

from __future__ import annotations

import pytest

from devmod_workbench._cli import main


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Return the exit status of a command, and what it prints to the standard output and the
    standard error.
    """
    capsys.readouterr()
    status = main([*map(str, words)])
    out, err = capsys.readouterr()
    assert "--debug" in words or "Traceback" not in out + err
    return status, out, err


def printed_by(
    captured: pytest.CaptureFixture[str], *words: object, status: int = 0
) -> pytest.CaptureResult[str]:
    """Return what a command prints, which ends with a status."""
    found = main([*map(str, words)])
    result = captured.readouterr()
    assert found == status, result.err
    return result
