"""Processes that a test interrupts with SIGINT. pytest's `pythonpath` has this folder."""

from __future__ import annotations

import sys

#: A shell starts jobs in the background with SIGINT ignored, and their children inherit that. This program restores the default.
_RESTORE = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


def interruptible_python(*arguments: str) -> list[str]:
    """Return the command of a Python process that SIGINT interrupts, wherever the tests run."""
    return [sys.executable, "-c", _RESTORE, *arguments]
