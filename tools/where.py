"""Print where to change what: the comments at the definition of each thing that has several
places.

    python tools/where.py                 all
    python tools/where.py element type    those with these words, the ones about them first

Such a comment begins with its subject, and has up to three fields. Lines of a field that go on are
indented more than the field:

    Where to change: an element type
      here: `_NAMED`, `STRUCT_FORMATS`
      also: `docs/formats.md`; a file of `devmod_readers`, if …
      tests: `tests/test_two_places.py`

`here` says what changes in this file, if the line below the comment does not. `also` names the
other places, and `tests` the files that fail until all of them agree.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from environments import ROOT

_SUFFIXES = {".c", ".cpp", ".h", ".js", ".mjs", ".py", ".toml", ".yml"}
_FIRST = re.compile(r"\s*(?:#|//|/?\*) Where to change: (.+)")
_NEXT = re.compile(r"\s*(?:#|//|\*)   ?( *)(\S.*)")
_FIELDS = ("here", "also", "tests")
#: The words of a question that name no thing.
_IGNORED = {
    *("a", "add", "all", "an", "another", "are", "change", "each", "every", "for", "in", "is"),
    *("new", "of", "the", "to", "where", "with", "two", "three", "seven"),
}
#: The most rows with some of the words that are printed as a whole.
_MOST = 6


class Row(NamedTuple):
    """One of the comments.

    Attributes
    ----------
    change
        What is changed.
    path, line
        The file of the comment, relative to the repository, and its line there.
    here, also, tests
        The fields, each as one line; "" for one that the comment lacks.
    """

    change: str
    path: str
    line: int
    here: str = ""
    also: str = ""
    tests: str = ""

    @property
    def text(self) -> str:
        """The row as people read it."""
        lines = [self.change, f"  in {self.path}:{self.line}"]
        for name in _FIELDS:
            value = getattr(self, name)
            if value:
                lines.append(f"  {name}: {value}")
        return "\n".join(lines)


def rows_of(text: str, path: str) -> Iterator[Row]:
    """Yield the comments of a file."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        first = _FIRST.fullmatch(line)
        if first is None:
            continue
        fields: dict[str, str] = {}
        name = ""
        for following in lines[number:]:
            match = _NEXT.fullmatch(following)
            if match is None:
                break
            start, _, rest = match[2].partition(": ")
            if start in _FIELDS and not match[1]:
                name = start
                fields[name] = rest
            elif name:
                fields[name] += f" {match[2]}"
        yield Row(first[1], path, number, **fields)


def files() -> Iterator[Path]:
    """Yield the files of the repository, without those that git ignores. A copy of it may be no
    checkout, so git is not asked.
    """
    skipped = {ROOT / each for each in ("build", ".git", ".venv")}
    for folder, folders, names in os.walk(ROOT):
        place = Path(folder)
        folders[:] = sorted(
            each
            for each in folders
            if place / each not in skipped and not re.match(r"__|node_modules|\.\w+_cache", each)
        )
        for name in names:
            yield place / name


def rows() -> list[Row]:
    """Return the comments of the repository, sorted by what they are about."""
    found: list[Row] = []
    for path in files():
        if path.suffix not in _SUFFIXES and path.name != "Makefile":
            continue
        text = path.read_text(encoding="utf-8")
        if "Where to change: " in text:
            found += rows_of(text, path.relative_to(ROOT).as_posix())
    return sorted(found)


def _count(words: Sequence[str], text: str) -> int:
    """Return how many of the words begin a word of a text, in the singular or in the plural."""
    stems = [re.escape(word.removesuffix("s") if len(word) > 3 else word) for word in words]
    return sum(re.search(rf"\b{stem}", text.lower()) is not None for stem in stems)


def main(words: Sequence[str]) -> int:
    """Print the rows with all words, or those with most of them; return the exit code."""
    wanted = [word.lower() for word in words if word.lower() not in _IGNORED]
    every = rows()
    found = [row for row in every if _count(wanted, row.change) == len(wanted)]
    if not found:
        counts = [_count(wanted, row.text) for row in every]
        most = max(counts)
        found = [row for row, count in zip(every, counts, strict=True) if 0 < count == most]
        if found and most < len(wanted):
            print(f"no row has all of {' '.join(wanted)}; these have most of the words:\n")
            if len(found) > _MOST:
                print("\n".join(row.change for row in found))
                return 1
    if not found:
        print(f"no row has {' '.join(words)}. git grep -h 'Where to change: ' lists all")
        return 1
    print("\n\n".join(row.text for row in found))
    return 0


def run(words: Sequence[str]) -> int:
    """Call `main`. A reader such as ``head``, which ends before all is written, is no error."""
    try:
        code = main(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # At exit, Python flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
