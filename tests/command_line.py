"""The command line in the process of a test."""

from __future__ import annotations

import pytest

from devmod._cli import main


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Return the exit status of a command, and what it prints to the standard output and the
    standard error.
    """
    capsys.readouterr()
    status = main([*map(str, words)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err
