"""The lines of DEVMOD_LOG=debug on standard error, one for each decision. The logging module would slow the import."""

from __future__ import annotations

from devmod._util.environment import environment_text


def debug(text: str) -> None:
    """Print `text` on standard error if the environment variable DEVMOD_LOG is "debug". Each call reads the variable."""
    if environment_text("DEVMOD_LOG").lower() == "debug":
        import sys

        from devmod._util.text import escape_line

        if sys.stderr is not None:  # a program without a console has none
            print(escape_line(f"devmod: {text}"), file=sys.stderr)
