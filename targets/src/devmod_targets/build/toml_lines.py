"""The lines of the keys in a TOML document. tomllib returns values without their places.

The functions expect a document that tomllib has accepted, so they check nothing.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    #: The keys from the root to a value. The members of an array have their index.
    KeyPath = tuple[str | int, ...]

# A possessive repetition (``*+``) keeps no place for each character to come back to.
_SPACE = re.compile(r"(?:[ \t\n]++|#[^\n]*+)*+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_LITERAL = re.compile(r"'[^']*'")
#: A multi-line string may end with one or two quotes of its own before the three that close it.
_STRINGS = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|' + r"'''.*?'{3,5}(?!')|" + f"{_BASIC.pattern}|{_LITERAL.pattern}", re.DOTALL)
_SCALAR = re.compile(r"[^,\]}\n#]+")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of each key and of each member of an array. A table has the line that names it first."""
    return _Scanner(text.replace("\r\n", "\n")).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        #: The number of tables in each array of tables.
        self._counts: dict[KeyPath, int] = {}

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self._skip_space():
            if not self._take("["):
                self._pair(table)
                continue
            is_array = self._take("[")
            line = self._line
            names = self._key()
            self._take("]")
            if is_array:
                self._take("]")
            table = self._path_of_header(names, is_array)
            for length in range(1, len(table) + 1):
                self._lines.setdefault(table[:length], line)
        return self._lines

    def _path_of_header(self, names: list[str], is_array: bool) -> KeyPath:
        """Return the path of a header. The name of an array of tables refers to its last table."""
        path: KeyPath = ()
        for number, name in enumerate(names, 1):
            path = (*path, name)
            if is_array and number == len(names):
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _pair(self, table: KeyPath) -> None:
        """Read ``key = value``."""
        line, path = self._line, table
        for name in self._key():
            path = (*path, name)
            self._lines.setdefault(path, line)
        self._take("=")
        self._skip_space()
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        string = _STRINGS.match(self._text, self._at)
        if string:
            self._at = string.end()
        elif self._take("["):
            index = 0
            while self._skip_space() and not self._take("]"):
                if not self._take(","):
                    self._lines[(*path, index)] = self._line
                    self._value((*path, index))
                    index += 1
        elif self._take("{"):
            while self._skip_space() and not self._take("}"):
                if not self._take(","):
                    self._pair(path)
        else:
            scalar = _SCALAR.match(self._text, self._at)
            self._at = scalar.end() if scalar else len(self._text)

    def _key(self) -> list[str]:
        """Read a dotted key."""
        names: list[str] = []
        while True:
            self._skip_space()
            bare = _BARE.match(self._text, self._at)
            token = bare or _BASIC.match(self._text, self._at) or _LITERAL.match(self._text, self._at)
            if token is None:
                return names
            self._at = token.end()
            names.append(token[0] if bare else str(tomllib.loads(f"key = {token[0]}")["key"]))
            self._skip_space()
            if not self._take("."):
                return names

    def _skip_space(self) -> bool:
        """Skip white space and comments. Return whether text follows."""
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._at < len(self._text)

    def _take(self, mark: str) -> bool:
        """Skip a character if it is `mark`, and return whether it was."""
        if self._text[self._at : self._at + 1] != mark:
            return False
        self._at += 1
        return True

    @property
    def _line(self) -> int:
        return bisect_right(self._newlines, self._at - 1) + 1 if self._at else 1
