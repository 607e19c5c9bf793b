"""Run commands below `devmod simulate`, for its tests."""

from __future__ import annotations

import os
import sys

import forked


def simulate(*command: str, options: tuple[str, ...] = (), code: int = 0, **variables: str) -> str:
    """Run a command below `devmod simulate`, and return what it prints."""
    words = ["-m", "devmod", "simulate", *options, "--", *command]
    done = forked.python(*words, env=os.environ | variables)
    printed = done.stdout + done.stderr
    assert done.returncode == code, printed
    return printed


def python(program: str, *options: str, **variables: str) -> str:
    return simulate(sys.executable, "-c", program, options=options, **variables)
