"""The file of a manifest, and the mistakes in it."""

from __future__ import annotations

import codecs
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from devmod.backend import file_name, open_regular
from devmod.errors import FormatError

KeyPath = tuple[str | int, ...]
#: The line of each key, from 1.
_Lines = dict[KeyPath, int]


MANIFEST_NAME = "devmod.toml"
PYPROJECT = "pyproject.toml"
#: The largest size of a manifest. A thousand kernels take about 200 kB.
_LARGEST = 16 << 20
#: The largest number of mistakes in a message.
_MAX_SHOWN = 20
#: The largest number of mistakes that are looked for.
_MAX_PROBLEMS = 1000
#: The largest depth of tables and arrays. A struct in a struct takes two.
_MAX_DEPTH = 32
#: A dotted key that is deeper than that. tomllib takes time and memory in proportion to the square
#: of its length.
_DEEP_KEY = re.compile(
    rf"""(?<![\w-])(?:(?:[A-Za-z0-9_-]++|"(?>(?:[^"\\\n]++|\\.)*)"|'[^'\n]*+')[ \t]*\.[ \t]*){{{_MAX_DEPTH}}}""",
    re.ASCII,
)

# A possessive repetition (``++``) keeps no place for each character to come back to. A multi-line
# string may end with one or two quotes of its own before the three that close it.
_STRING = (
    r"""\"{3}(?:[^\\]|\\.)*?\"{3,5}(?!\")|'{3}.*?'{3,5}(?!')|\"(?>(?:[^\"\\]++|\\.)*)\"|'[^']*'"""
)
#: A string, a mark, a line break, or a bare key or a part of a scalar; white space and comments are
#: in no group.
_TOKEN = rf"(?s)({_STRING}|[\[\]{{}}=,.]|[^\s#\[\]{{}}=,.\"']++)|(\n)\s*+|[^\S\n]++|#[^\n]*+"


class Problem(NamedTuple):
    """A mistake in a manifest: the line (0 if it has none), the key, and the description."""

    line: int
    key: str
    text: str


class ManifestError(FormatError):
    """A manifest has mistakes.

    Attributes
    ----------
    path
        The file.
    problems
        The mistakes, each a `Problem`, in the order of the lines.
    """

    def __init__(self, path: str, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(sorted(problems, key=lambda each: each.line))
        lines = []
        for line, key, text in self.problems:
            place = f"{path}:{line}" if line else path
            lines.append(f"{place}: {key}: {text}")
        if len(lines) > 1:
            count = f"{len(lines)} mistakes"
            if len(lines) >= _MAX_PROBLEMS:
                count += " or more"
            hidden = len(lines) - _MAX_SHOWN
            lines = [f"{path} has {count}:", *lines[:_MAX_SHOWN]]
            if hidden > 0:
                lines.append(f"… and {hidden} more")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:
        return ManifestError, (self.path, self.problems)


class Document:
    """A manifest's file: its tables, and the lines of their keys.

    Parameters
    ----------
    path
        The file, as the caller named it.
    text
        Its text.
    data
        The table with the manifest.
    prefix
        The keys of that table in the file.
    """

    def __init__(self, path: str, text: str, data: Mapping[str, Any], prefix: KeyPath = ()) -> None:
        self.path = path
        self.data = data
        #: The mistakes so far, each once.
        self.problems: dict[Problem, None] = {}
        self._text = text
        self._prefix = prefix

    @cached_property
    def _lines(self) -> _Lines:
        return key_lines(self._text)

    def line(self, keys: KeyPath) -> int:
        """Return the line of a key, or of the nearest table around it; 0 if the manifest has no
        line.
        """
        path = (*self._prefix, *keys)
        while path:
            if path in self._lines:
                return self._lines[path]
            path = path[:-1]
        return 0

    def add(self, keys: KeyPath, text: str) -> None:
        """Add a mistake at a key. Raise ManifestError if there are too many to look for more."""
        self.problems.setdefault(self.problem(keys, text))
        if len(self.problems) >= _MAX_PROBLEMS:
            raise ManifestError(self.path, [*self.problems])

    def problem(self, keys: KeyPath, text: str) -> Problem:
        """Return a mistake at a key."""
        return Problem(self.line(keys), key_text((*self._prefix, *keys)) or "the manifest", text)


def key_text(keys: KeyPath) -> str:
    """Return the path of a key as in TOML: ``kernels.twice.sources[2]``, with the index from 0."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
            continue
        if text:
            text += "."
        is_bare = re.fullmatch(r"[A-Za-z0-9_-]+", key)
        text += key if is_bare else json.dumps(key, ensure_ascii=False)
    return text


def find_manifest(path: str | os.PathLike[str]) -> str:
    """Return the path of the manifest for a file or a folder.

    Raises
    ------
    FileNotFoundError
        The folder has no manifest, or there is no such file.
    ManifestError
        The folder has two.
    """
    name = file_name(path)
    if not os.path.isdir(name):
        return name
    own = os.path.normpath(os.path.join(name, MANIFEST_NAME))
    project = os.path.normpath(os.path.join(name, PYPROJECT))
    in_project = False
    if os.path.isfile(project):
        in_project = "devmod" in _tool_tables(_parse(project, _read(project)))
    if not os.path.exists(own):
        if in_project:
            return project
        what = (
            f"no {MANIFEST_NAME}, and no {PYPROJECT} with [tool.devmod]. To write one: devmod init"
        )
        raise FileNotFoundError(2, what, name)
    if in_project:
        document = Document(project, _read(project), {}, ("tool", "devmod"))
        problem = document.problem((), f"{own} is a manifest as well; keep one of them")
        raise ManifestError(project, [problem])
    return own


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read the manifest of a file or a folder.

    Raises
    ------
    ManifestError
        It is not TOML, or a pyproject.toml without ``[tool.devmod]``.
    OSError
        It cannot be read.
    """
    name = find_manifest(path)
    text = _read(name)
    data = _parse(name, text)
    if os.path.basename(name) != PYPROJECT:
        return Document(name, text, data)
    table = _tool_tables(data).get("devmod")
    if not isinstance(table, dict):
        text = "expected a table with the manifest, which is missing. See: devmod init --help"
        raise ManifestError(name, [Problem(0, "tool.devmod", text)])
    return Document(name, text, table, ("tool", "devmod"))


def _tool_tables(data: Mapping[str, Any]) -> Mapping[str, Any]:
    tool = data.get("tool")
    if isinstance(tool, dict):
        return tool
    return {}


def _read(path: str) -> str:
    with open_regular(path) as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        problem = f"it is too large for a manifest: over {_LARGEST >> 20} MiB"
        raise ManifestError(path, [Problem(0, "the file", problem)])
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = f"expected UTF-8 text, got the byte 0x{error.object[error.start]:02x}"
        raise ManifestError(path, [Problem(line, "the file", problem)]) from None


def _parse(path: str, text: str) -> dict[str, Any]:
    if _DEEP_KEY.search(text):
        raise ManifestError(path, [_too_deep()])
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).partition(" (at ")
        line = text.count("\n") + 1
        where = "the end of the file"
        words = place.removesuffix(")").split()  # "line 3, column 7", or "end of document"
        if words[:1] == ["line"]:
            line = int(words[1].strip(","))
            where = f"column {words[3]}"
        raise ManifestError(
            path, [Problem(line, where, f"the text is not TOML: {message}")]
        ) from None
    except ValueError:  # Python's limit on the digits of an integer
        raise ManifestError(
            path, [Problem(0, "the file", "it has an integer of more than 64 bits")]
        ) from None
    except RecursionError:
        raise ManifestError(path, [_too_deep()]) from None
    _check_values(path, text, data)
    return data


def _check_values(path: str, text: str, data: Mapping[str, Any]) -> None:
    """Check the depth of the tables, and the integers: Python's have any size, and no message or
    command takes such a one.
    """
    waiting: list[tuple[KeyPath, Any]] = [((), data)]
    while waiting:
        keys, value = waiting.pop()
        if len(keys) > _MAX_DEPTH:
            raise ManifestError(path, [_too_deep()])
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            if isinstance(each, (dict, list)):
                waiting.append(((*keys, key), each))
            elif isinstance(each, int) and not -(1 << 63) <= each < 1 << 64:
                problem = Document(path, text, data).problem(
                    (*keys, key), "expected an integer of at most 64 bits"
                )
                raise ManifestError(path, [problem])


def _too_deep() -> Problem:
    return Problem(0, "the file", "its arrays or tables are nested too deeply")


# -- The lines of the keys in a TOML document. tomllib returns values without their places.
#
# The functions expect a document that tomllib has accepted, so they check nothing.


def key_lines(text: str) -> _Lines:
    """Return the line, from 1, of each key and of each member of an array. A table has the line
    that names it first.
    """
    return _Scanner(text.replace("\r\n", "\n")).scan()


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Yield the tokens with their lines; "" at the end."""
    line = 1
    for match in re.finditer(_TOKEN, text):
        token = match[1] or match[2]
        if token:
            yield token, line
        line += match[0].count("\n")
    yield "", line


class _Scanner:
    def __init__(self, text: str) -> None:
        self._rest = _tokens(text)
        self._token, self._line = next(self._rest)
        self._lines: _Lines = {}
        #: The number of tables in each array of tables.
        self._counts: _Lines = {}

    def scan(self) -> _Lines:
        table: KeyPath = ()
        while self._skip_breaks():
            line = self._line
            if not self._take("["):
                self._pair(table)
                continue
            is_array = self._take("[")
            table = self._path_of_header(self._key(), is_array)
            while self._take("]"):
                pass
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
        line = self._line
        path = table
        for name in self._key():
            path = (*path, name)
            self._lines.setdefault(path, line)
        self._take("=")
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        if self._take("["):
            index = 0
            while self._skip_breaks() and not self._take("]"):
                if not self._take(","):
                    self._lines[(*path, index)] = self._line
                    self._value((*path, index))
                    index += 1
        elif self._take("{"):
            while self._skip_breaks() and not self._take("}"):
                if not self._take(","):
                    self._pair(path)
        else:
            # A string, or the parts of another scalar.
            while self._token not in ("", ",", "]", "}", "\n"):
                self._next()

    def _key(self) -> list[str]:
        """Read a dotted key."""
        names: list[str] = []
        while not names or self._take("."):
            token = self._next()
            if token.startswith(('"', "'")):
                token = str(tomllib.loads(f"key = {token}")["key"])
            names.append(token)
        return names

    def _skip_breaks(self) -> bool:
        """Skip line breaks. Return whether a token follows."""
        while self._take("\n"):
            pass
        return self._token != ""

    def _take(self, mark: str) -> bool:
        """Skip the token if it is `mark`, and return whether it was."""
        return self._token == mark and self._next() == mark

    def _next(self) -> str:
        """Return the token, and go on to the next one."""
        token = self._token
        self._token, self._line = next(self._rest)
        return token
