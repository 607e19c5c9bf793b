"""The functions that read environment variables. Every call reads the environment again.
docs/plugins.md has all variables.
"""

from __future__ import annotations

import os

_FALSE = ("0", "false")


# Where to change: an environment variable
#   here: the function that reads it, with one of `core/src/devmod/_util/environment.py`
#   also: `docs/plugins.md`
#   tests: `tests/test_docs.py`
def environment_text(name: str) -> str:
    """Return the value of an environment variable without white space around it; "" if it is not
    set.
    """
    return os.environ.get(name, "").strip()


def environment_flag(name: str, *, default: bool = False) -> bool:
    """Return whether an environment variable is neither 0 nor false (in any case); `default` if it
    is empty or not set.
    """
    value = environment_text(name)
    if not value:
        return default
    return value.lower() not in _FALSE


def environment_items(name: str) -> list[str]:
    """Return the parts of a comma-separated environment variable, without white space and empty
    parts.
    """
    parts = os.environ.get(name, "").split(",")
    return list(filter(None, map(str.strip, parts)))


def environment_paths(name: str) -> tuple[str, ...]:
    """Return the paths in an environment variable, as they are there: white space and empty ones
    stay. A blank one has none.
    """
    text = os.environ.get(name, "")
    if not text.strip():
        return ()
    return tuple(text.split(os.pathsep))


def debug(text: str) -> None:
    """Print a decision on standard error if DEVMOD_LOG is "debug". The logging module would slow
    the import.
    """
    if environment_text("DEVMOD_LOG").lower() == "debug":
        import sys

        from devmod._util.text import escape_line

        if sys.stderr is not None:  # a program without a console has none
            print(escape_line(f"devmod: {text}"), file=sys.stderr)
