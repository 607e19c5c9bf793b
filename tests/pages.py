"""The marked blocks of a page: files to write, code to run (with a library, if it is installed),
what it prints, and commands.

A block of commands may have their exit status, as in ``<!-- shell: 1 -->``. Its output then
includes the standard error.
"""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator

_BLOCK = re.compile(
    r"<!-- (file|run|with|prints|shell)(?:: (\S+))? -->\n```\w+\n(.*?)```", re.DOTALL
)
_MATCH = doctest.OutputChecker()


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield each marked block: its mark, the file or the status that it names, and its text."""
    for result in _BLOCK.finditer(page):
        yield result[1], result[2] or "", result[3]


def commands(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield each command of a console block, and what it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield shlex.split(line, comments=True), output


def same(want: str, got: str) -> bool:
    """Return whether an output is the expected one; ``...`` matches any text."""
    return _MATCH.check_output(want, got, doctest.ELLIPSIS)
