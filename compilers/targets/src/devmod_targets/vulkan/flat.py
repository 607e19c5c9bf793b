"""GLSL with its includes in one text, and the file and the line of each of its lines: SPIR-V has
the lines of one file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from devmod_targets.authoring._source import Inliner, line_directive

if TYPE_CHECKING:
    from devmod_targets.authoring import CompileRequest

_DIRECTIVE = re.compile(r'[ \t]*#[ \t]*line\b[ \t]*(\d*)(?:[ \t]+"(.*)")?.*')
#: A line of PTX's file, and a place in an error.
_LOC = re.compile(r"^(\s*\.loc) \d+ (\d+)", re.MULTILINE)
_FILE = re.compile(r"^\s*\.file\b.*\n", re.MULTILINE)
_UNQUOTABLE = re.compile(r'[\x00-\x1f"\\\x7f]')
_ENTRY = re.compile(r"^\.visible \.entry", re.MULTILINE)


class FlatSource(NamedTuple):
    """A source without directives of lines.

    Attributes
    ----------
    text
        The text.
    places
        The file and the number of each line.
    """

    text: str
    places: tuple[tuple[str, int], ...]

    def sources(self) -> dict[str, str]:
        """Return the texts of the files, as far as the source has them."""
        files: dict[str, dict[int, str]] = {}
        for line, (file, number) in zip(self.text.split("\n"), self.places, strict=True):
            files.setdefault(file, {})[number] = line
        return {
            file: "\n".join(lines.get(number, "") for number in range(1, max(lines) + 1))
            for file, lines in files.items()
        }

    def place(self, number: int) -> tuple[str, int]:
        """Return the file and the line of a line of the text, or ("", 0)."""
        if 1 <= number <= len(self.places):
            return self.places[number - 1]
        return "", 0

    def with_lines(self, ptx: str) -> str:
        """Return PTX of the text with the lines of the files."""
        numbers = {file: number for number, file in enumerate(self.sources(), 1)}

        def own_line(match: re.Match[str]) -> str:
            file, number = self.place(int(match[2]))
            return f"{match[1]} {numbers.get(file, 1)} {number}"

        files = ""
        for file, number in numbers.items():
            files += f'.file {number} "{_UNQUOTABLE.sub("_", file)}"\n'
        ptx = _LOC.sub(own_line, _FILE.sub("", ptx))
        return _ENTRY.sub(lambda match: files + match[0], ptx, count=1)

    def with_places(self, message: str, name: str) -> str:
        """Return a message about the text, as a file of a name, with the places of the files."""

        def own_place(match: re.Match[str]) -> str:
            file, number = self.place(int(match[1]))
            return f" at {file}:{number}"

        return re.sub(rf" at {re.escape(name)}:(\d+)", own_place, message)


def flatten(request: CompileRequest) -> FlatSource:
    """Return a source with its includes. Raise CompileError if one cannot be included."""
    text = Inliner(request, {}, line_directive).inline(request.text)
    file = request.name
    number = 1
    lines = []
    places = []
    for line in text.split("\n"):
        directive = _DIRECTIVE.fullmatch(line)
        if directive and directive[2]:
            file = directive[2]
            number = int(directive[1])
            continue
        if directive:  # of the source itself
            line = ""
        lines.append(line)
        places.append((file, number))
        number += 1
    return FlatSource("\n".join(lines), tuple(places))
