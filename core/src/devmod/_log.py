"""What DEVMOD_LOG=debug shows: one line a decision, on standard error. The logging module is not worth its import here."""

from __future__ import annotations

import os


def debug(text: str) -> None:
    """Print `text` on standard error when the environment variable DEVMOD_LOG is "debug"; read at each call."""
    if os.environ.get("DEVMOD_LOG", "").lower() == "debug":
        import sys

        if sys.stderr is not None:  # a program without a console has none
            print(f"devmod: {text}", file=sys.stderr)
