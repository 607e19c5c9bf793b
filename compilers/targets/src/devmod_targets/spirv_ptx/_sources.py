"""The files of a shader's source: their numbers in PTX, and their texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod_readers.spirv import SpirvLine

#: glslang puts lines with this before a text, and a directive behind them.
_PROCESSED = "// OpModuleProcessed"
_MOST_SHOWN = 100
_DIRECTIVE = re.compile(r"#line (\d+)")


class Sources:
    """The files that lines of a module name.

    Parameters
    ----------
    texts
        The texts that the module has, by the names of the files.
    name, text
        The file for the lines of files without a text, if `text` is not empty.
    """

    def __init__(self, texts: Mapping[str, str], name: str, text: str) -> None:
        self._texts = dict(texts)
        self._default = name if text else ""
        if text:
            self._texts[name] = text
        self._numbers: dict[str, int] = {}

    def _name(self, file: str) -> str:
        if file in self._texts or not self._default:
            return file
        return self._default

    def number(self, file: str) -> int:
        """Return the number of a file."""
        return self._numbers.setdefault(self._name(file), len(self._numbers) + 1)

    def place(self, line: SpirvLine) -> str:
        """Return a line with its text, for errors."""
        name = self._name(line.file)
        text = self._line(self._texts.get(name, ""), line.number)
        place = f"{name}:{line.number}"
        return f"{place} ({text})" if text else place

    def _line(self, text: str, wanted: int) -> str:
        number = 1
        result = ""
        for line in text.splitlines():
            directive = _DIRECTIVE.match(line)
            if directive:
                number = int(directive[1])
                continue
            if number == wanted and not line.startswith(_PROCESSED):
                result = line.strip()[:_MOST_SHOWN]
            number += 1
        return result

    def directives(self) -> list[str]:
        """Return the lines of PTX that name the files."""
        lines = []
        for name, number in self._numbers.items():
            shown = re.sub(r'[\x00-\x1f"\\\x7f]', "_", name) or "?"
            lines.append(f'.file {number} "{shown}"')
        return lines

    def comments(self) -> str:
        """Return the texts as comments, which the sanitizer reads."""
        lines: list[str] = []
        for name in self._numbers:
            text = self._texts.get(name, "")
            if text:
                shown = "".join(each if each.isprintable() else "_" for each in name)
                lines.append(f"//| {shown or '?'}:")
                lines += [f"//| {line}".replace("\0", " ") for line in text.splitlines()]
                lines.append("")
        return "\n".join(lines)
