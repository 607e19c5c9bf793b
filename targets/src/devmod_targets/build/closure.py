"""The files that a compile reads: a source and everything that it may include, found by the text alone.

The result has at least the files that a preprocessor reads. Conditions are not evaluated, and a name is looked up in every folder
that any compiler searches. If the text does not name a file, as in ``#include MACRO``, all files in the folders are in the result.
"""

from __future__ import annotations

import codecs
import os
import re
from hashlib import sha256

from devmod.backend import open_regular
from devmod_targets.authoring._directives import scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Blanks and comments inside a directive. The bounds keep the work linear in the size of a text; longer comments and names are `long`.
_BLANK = rb"(?:[^\S\n]|/\*(?:[^*]|\*(?!/)){0,128}+\*/)*+"
#: The start of an include in any spelling, and its file if the text names it.
_INCLUDE = re.compile(
    rb"(?:(?:\#|%:|\?\?=)" + _BLANK + rb"(?:(?:include_next|include|import|embed)\b|(?P<long>/\*))"
    rb"|__has_(?:include_next|include|embed)" + _BLANK + rb"(?:\(|(?P<long_2>/\*)))"
    + _BLANK + rb'(?:"(?P<quoted>[^"\n]{0,500})"|<(?P<angled>[^>\n]{0,500})>|(?P<long_3>/\*|["<][^">\n]{500}))?'
)  # fmt: skip
#: Every text with an include contains one of these names.
_WORDS = (b"include", b"import", b"embed")
#: The assembler's directive that includes a file. No pattern finds the name of its file reliably.
_INCBIN = b"incbin"
_SPLICE = re.compile(rb"\\[^\S\n]*\n")
#: Files of these folders and suffixes are never included: the history of the project, and the results of builds.
_IGNORED_FOLDERS = frozenset((".git", ".hg", ".svn", "__pycache__"))
_IGNORED_SUFFIXES = (".devmod", ".partial", ".pyc")
#: The bounds on the folders that are hashed whole.
_MAX_FILES = 4096
_MAX_BYTES = 256 << 20


class SourceFile:
    """A file as it was read.

    Attributes
    ----------
    data
        Its bytes.
    digest
        Their SHA-256.
    includes
        The names that it includes, in order.
    opaque
        Whether it includes a file that its text does not name.
    state
        The result of `state_of` before the file was read.
    """

    __slots__ = ("data", "digest", "includes", "opaque", "state")

    def __init__(self, path: str) -> None:
        self.state = state_of(path)
        with open(path, "rb") as file:
            self.data = file.read()
        self.digest = sha256(self.data).hexdigest()
        self.includes, self.opaque = _includes(self.data)

    @property
    def text_digest(self) -> str:
        """The SHA-256 of the text without a byte-order mark, as origins have it."""
        return sha256(self.data.removeprefix(codecs.BOM_UTF8)).hexdigest()


class SourceTree:
    """The files of one build. Each is read once, so all jobs of a build see one state of it."""

    def __init__(self) -> None:
        self._files: dict[str, SourceFile | None] = {}
        self._folders: dict[tuple[str, ...], dict[str, SourceFile] | None] = {}

    def file(self, path: str) -> SourceFile | None:
        """Return a file; None if there is no regular file that can be read."""
        if path not in self._files:
            try:
                self._files[path] = SourceFile(path) if os.path.isfile(path) else None
            except OSError:
                self._files[path] = None
        return self._files[path]

    def folders(self, folders: tuple[str, ...]) -> dict[str, SourceFile] | None:
        """Return all files of the folders; None if they are too many."""
        if folders not in self._folders:
            self._folders[folders] = self._walk(folders)
        return self._folders[folders]

    def _walk(self, folders: tuple[str, ...]) -> dict[str, SourceFile] | None:
        result: dict[str, SourceFile] = {}
        size = 0
        for folder in folders:
            for path in _files_in(folder):
                if path in result:
                    continue
                try:
                    size += os.stat(path).st_size
                except OSError:
                    continue
                file = self.file(path) if size <= _MAX_BYTES and len(result) < _MAX_FILES else None
                if file is None and (size > _MAX_BYTES or len(result) >= _MAX_FILES):
                    return None
                if file is not None:
                    result[path] = file
        return result


class Closure:
    """The files of one compile.

    Attributes
    ----------
    files
        Each path to its file, in the order of the includes.
    digest
        A digest of the contents, and of the names by which the files include each other. It does not depend on the folders' own
        names. "" if the files cannot be determined.
    """

    __slots__ = ("digest", "files")

    def __init__(self, files: dict[str, SourceFile], digest: str) -> None:
        self.files, self.digest = files, digest

    @property
    def is_current(self) -> bool:
        """Whether no file has changed since it was read."""
        try:
            return all(file.state == state_of(path) for path, file in self.files.items())
        except OSError:
            return False


def closure_of(source: str, include: Sequence[str], tree: SourceTree) -> Closure:
    """Return the files of a source.

    Parameters
    ----------
    source
        The absolute path of the source.
    include
        The absolute paths of the include folders, in their order.
    tree
        The files of the build.

    Raises
    ------
    OSError
        The source cannot be read.
    """
    source = os.path.realpath(source)
    first = tree.file(source)
    if first is None:
        with open_regular(source):
            raise IsADirectoryError(21, os.strerror(21), source)
    places = (os.path.dirname(source), *map(os.path.realpath, include))
    files = {source: first}
    numbers = {source: 0}
    digest = sha256()
    opaque = False
    for path in _growing_keys(files):
        file = files[path]
        opaque = opaque or file.opaque
        digest.update(f"file {file.digest}\n".encode())
        own = os.path.dirname(path)
        for name in file.includes:
            digest.update(b"include %d " % len(name) + name)
            for place in dict.fromkeys((own, *places)):
                target = os.path.realpath(os.path.join(place, os.fsdecode(name)))
                included = tree.file(target)
                if included is not None and target not in files:
                    files[target] = included
                    numbers[target] = len(numbers)
                digest.update(b" %d" % numbers.get(target, -1))
            digest.update(b"\n")
    if not opaque:
        return Closure(files, digest.hexdigest())
    everything = tree.folders(tuple(dict.fromkeys(places)))
    if everything is None or any(_INCBIN in file.data for file in files.values()):
        return Closure(files | (everything or {}), "")
    for number, place in enumerate(places):
        for path in sorted(path for path in everything if path.startswith(os.path.join(place, ""))):
            inner = os.path.relpath(path, place).replace(os.sep, "/")
            digest.update(f"place {number} {len(inner)} {inner} {everything[path].digest}\n".encode("utf-8", "surrogateescape"))
    return Closure(files | everything, digest.hexdigest())


def state_of(path: str) -> tuple[int, int, int]:
    """Return the size, the modification time in nanoseconds and the inode number of a file."""
    about = os.stat(path)
    return about.st_size, about.st_mtime_ns, about.st_ino


def _growing_keys(files: dict[str, SourceFile]) -> Iterator[str]:
    """Yield the paths, also those that the caller adds during the iteration."""
    position = 0
    while position < len(files):
        batch = list(files)[position:]
        position += len(batch)
        yield from batch


def _includes(data: bytes) -> tuple[tuple[bytes, ...], bool]:
    """Return the names that a text includes, and whether it includes a file that it does not name."""
    if b"\0" in data:  # SPIR-V, bitcode
        return (), False
    opaque = _INCBIN in data
    if b"\\" in data:
        data = _SPLICE.sub(b"", data.replace(b"\r\n", b"\n"))
    if not any(word in data for word in _WORDS):
        return (), opaque
    names: dict[bytes, None] = {}
    unnamed = False
    for match in _INCLUDE.finditer(data):
        name = match["quoted"] if match["quoted"] is not None else match["angled"]
        if match["long"] or match["long_2"] or match["long_3"]:
            opaque = True
        elif name:
            names[name] = None
        else:
            unnamed = True
    # The match may be in a comment. The exact reader is slow, so it reads only texts with such a match.
    return tuple(names), opaque or (unnamed and _has_unnamed(data))


def _has_unnamed(data: bytes) -> bool:
    """Return whether a text has an include that does not name its file, or a spelling that `scan` does not read."""
    text = data.decode("utf-8", "replace")
    if "%:" in text or "??=" in text or "__has_" in text:
        return True
    words = ("include", "include_next", "import", "embed")
    return any(directive.word in words and text[directive.end - 1 : directive.end] not in ('"', ">") for directive in scan(text)[0])


def _files_in(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _IGNORED_FOLDERS)
        for name in sorted(names):
            if not name.endswith(_IGNORED_SUFFIXES):
                yield os.path.realpath(os.path.join(place, name))
