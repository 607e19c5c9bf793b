"""The files that a compile may read: a source and everything that it includes, found by the text
alone.

The result has at least the files that a preprocessor reads. Conditions are not evaluated, and a
name is looked up in every folder that any compiler searches. A file is known by its real folder and
its own name, which may be a link: a compiler looks for further includes beside that name, not
beside the target of the link.

The compile lists the files that it read (`Payload.files`). A result that depends on another file is
not cached.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from errno import EINVAL
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import NamedTuple

from devmod.backend import open_regular
from devmod.errors import CompileError
from devmod_targets._executables import state_from_stat, state_of
from devmod_targets._included import IncludedNames, imported_names, included_names, macro_files
from devmod_targets._text import decode_source

#: The first bytes of sources that are no text: SPIR-V, LLVM bitcode, ELF objects.
_BINARY = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03", b"BC\xc0\xde", b"\x7fELF")

_Folders = tuple[str, ...]
#: The result of `SourceTree.look_up`.
_Found = tuple[list[str], set[str], bool]


class SourceFile:
    """A file as it was read.

    Attributes
    ----------
    data
        Its bytes.
    digest
        Their SHA-256.
    state
        The result of `state_of` before the file was read. Links to one file have equal states.
    """

    def __init__(self, data: bytes, state: tuple[object, ...], *, is_python: bool = False) -> None:
        self.data = data
        self.state = state
        self._is_python = is_python
        self.digest = sha256(data).hexdigest()

    @cached_property
    def included(self) -> IncludedNames:
        """The names that it includes, or imports."""
        if self._is_python:
            return imported_names(self.data)
        if self.data.startswith(_BINARY):
            return IncludedNames()
        return included_names(self.data)

    @property
    def text_digest(self) -> str:
        """The SHA-256 of the text as origins have it."""
        text = self.data.removeprefix(codecs.BOM_UTF8)
        try:
            text.decode()
        except UnicodeDecodeError:
            try:
                text = decode_source(text, "", "").encode()
            except CompileError:  # not a text
                return self.digest
        if text is self.data:
            return self.digest
        return sha256(text).hexdigest()


class SystemHeaders(NamedTuple):
    """The headers of a compiler. Their own includes may find files in the user's folders.

    Attributes
    ----------
    folders
        The folders, which are searched last.
    texts
        The headers that are not on the disk: path to text.
    first
        The names of the headers that the compiler includes before each source.
    """

    folders: Sequence[str] = ()
    texts: Mapping[str, str] = MappingProxyType({})
    first: Sequence[str] = ()


_NO_HEADERS = SystemHeaders()


class SourceTree:
    """The files of one build. Each is read once, so all jobs of a build see one state of it."""

    def __init__(self) -> None:
        self._files: dict[str, SourceFile | None] = {}
        self._folders: dict[str, str] = {}
        self._found: dict[tuple[_Folders, str], _Found] = {}

    def file(self, path: str) -> SourceFile | None:
        """Return a file; None if there is no regular file that can be read."""
        if path not in self._files:
            self._files[path] = _read(path)
        return self._files[path]

    def add_texts(self, texts: Mapping[str, str]) -> None:
        """Add files that are not on the disk."""
        for path, text in texts.items():
            if path not in self._files:
                self._files[path] = SourceFile(text.encode(), (path,))

    def real_folder(self, folder: str) -> str:
        """Return the real path of a folder."""
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return self._folders[folder]

    def look_up(self, folders: _Folders, name: str) -> _Found:
        """Look up a name in real folders, once for all jobs: the headers of a compiler include each
        other in each of them.

        Returns
        -------
        list of str
            The path of the file in each folder, in its real folder; "" if there is none.
        set of str
            The paths without a file.
        bool
            Whether the name leads through a linked folder.
        """
        key = folders, name
        if key not in self._found:
            found = []
            missing = set()
            any_linked = False
            for folder in folders:
                path, is_linked = self._find(os.path.join(folder, name))
                found.append(path)
                any_linked = any_linked or is_linked
                if not path:
                    missing.add(os.path.join(folder, name))
            self._found[key] = found, missing, any_linked
        return self._found[key]

    def _find(self, path: str) -> tuple[str, bool]:
        head, tail = os.path.split(path)
        try:
            real = self.real_folder(head)
        except ValueError:  # no path of the system, such as one with a zero byte
            return "", False
        result = os.path.join(real, tail)
        # The system does not open `missing/../a.h`.
        if self.file(result) is not None and (path == result or os.path.isfile(path)):
            return result, real != os.path.normpath(head)
        if _is_file(path) and not os.path.isfile(path):
            # A compiler may wait for a pipe, and its contents are no input.
            raise OSError(
                EINVAL, f"an include names {path!r}, which is neither a regular file nor a folder"
            )
        return "", False


class Closure(NamedTuple):
    """The files of one compile.

    Attributes
    ----------
    files
        The user's files: path to file, in the order of the includes.
    digest
        A digest of the contents, of the names by which the files include each other, and of the
        names that find no file. It does not depend on the folders' own names. "" if the files
        cannot be determined.
    missing
        The paths at which a new file would be included.
    is_linked
        Whether an include leads through a linked folder.
    """

    files: dict[str, SourceFile]
    digest: str
    missing: frozenset[str]
    is_linked: bool

    @property
    def is_current(self) -> bool:
        """Whether no file has changed since it was read, and no missing file exists now."""
        try:
            unchanged = all(file.state == state_of(path) for path, file in self.files.items())
        except OSError:
            return False
        return unchanged and not any(map(_is_file, self.missing))

    def unknown_file(self, files: Mapping[str, str]) -> str:
        """Return the first of some files, path to SHA-256, that is not one of these files with the
        same contents; "" if all are.
        """
        for path, digest in files.items():
            folder, name = os.path.split(path)
            file = self.files.get(os.path.join(os.path.realpath(folder), name))
            if file is None or digest not in (file.digest, file.text_digest):
                return path
        return ""

    def has_contents(self, digests: Iterable[str]) -> bool:
        """Return whether each digest is that of one of the files."""
        known = set()
        for file in self.files.values():
            known |= {file.digest, file.text_digest}
        return known.issuperset(digests)


def closure_of(
    source: str,
    include: Sequence[str],
    tree: SourceTree,
    system: SystemHeaders = _NO_HEADERS,
    definitions: Iterable[str] = (),
    *,
    embedded: bool = False,
) -> Closure:
    """Return the files of a source.

    Parameters
    ----------
    source
        The path of the source.
    include
        The paths of the include folders, in their order.
    tree
        The files of the build.
    system
        The headers of the compiler, if it finds their includes in the user's folders.
    definitions
        The macros outside of the texts: names with their values, such as ``CONFIG "a.h"``.
    embedded
        Whether devmod embeds the includes. Then a macro leads to no other file than those that the
        compile reports.

    Raises
    ------
    OSError
        The source cannot be read. Or an include names a pipe, a socket or a device.
    """
    tree.add_texts(system.texts)
    source = os.path.abspath(source)
    path = os.path.join(tree.real_folder(os.path.dirname(source)), os.path.basename(source))
    if tree.file(path) is None:
        with open_regular(source):
            raise IsADirectoryError(21, os.strerror(21), source)
    folders = [os.path.dirname(path)]
    folders += [tree.real_folder(os.path.abspath(each)) for each in include]
    folders += system.folders
    own = tuple(os.path.join(folder, "") for folder in system.folders)
    walk = _Walk(path, folders, tree, own)
    for name in system.first:
        walk.look_up(path, name.encode())
    defines = "\n".join(f"#define {each}" for each in definitions)
    is_known = walk.follow(defines.encode("utf-8", "surrogateescape"))
    files = {each: file for each, file in walk.files.items() if not each.startswith(own)}
    missing = frozenset(each for each in walk.missing if not each.startswith(own))
    digest = walk.digest() if is_known or embedded else ""
    return Closure(files, digest, missing, walk.is_linked)


class _Walk:
    """The way from a source to its files. `own` has the folders of the compiler's headers.

    Attributes
    ----------
    files
        The files so far, by path, in the order in which they were found.
    missing
        The paths without a file.
    is_linked
        Whether a name led through a linked folder.
    """

    def __init__(
        self, source: str, folders: Sequence[str], tree: SourceTree, own: _Folders
    ) -> None:
        self.files: dict[str, SourceFile] = {}
        self.missing: set[str] = set()
        self.is_linked = False
        self._folders = folders
        self._tree = tree
        self._own = own
        self._paths: list[str] = []
        self._numbers: dict[str, int] = {}
        self._lines: list[bytes] = []
        self._add(source)

    def look_up(self, path: str, name: bytes) -> None:
        """Look up a name in an include of a file: beside the file, and in all folders."""
        found, missing, is_linked = self._tree.look_up(
            (os.path.dirname(path), *self._folders), os.fsdecode(name)
        )
        self.is_linked = self.is_linked or is_linked
        self.missing |= missing
        numbers = [self._add(each) if each else -1 for each in found]
        self._lines.append(
            b"include %d %d " % (self._numbers[path], len(name)) + name + b" %r" % (numbers,)
        )

    def follow(self, definitions: bytes) -> bool:
        """Find the files of all includes. Return whether every include names its file."""
        macros: dict[bytes, None] = {}
        resolved: dict[bytes, None] = {}
        outside = included_names(definitions)
        is_known = not (outside.names or outside.macros or outside.opaque)
        position = 0
        while True:
            while position < len(self._paths):
                is_known &= self._follow_file(self._paths[position], macros, resolved)
                position += 1
            if not macros:
                return is_known

            texts = [definitions, *(file.data for file in self.files.values())]
            files = macro_files(macros, texts)
            new = [name for name in files or () if name not in resolved]
            if not new:
                return is_known and files is not None
            resolved |= dict.fromkeys(new)
            for path in self._paths[:position]:
                if self.files[path].included.macros:
                    self._look_up_all(path, new)

    def _follow_file(
        self, path: str, macros: dict[bytes, None], resolved: dict[bytes, None]
    ) -> bool:
        """Find the files of the includes in a file, and add the macros that name some to `macros`.
        Return whether every include names its file.
        """
        included = self.files[path].included
        self._look_up_all(path, included.names)
        if included.macros:
            self._look_up_all(path, resolved)
            macros |= dict.fromkeys(included.macros)
        # libc++ has many names that `##` could make an include of, such as `__h`, and none is one.
        return not included.opaque or path.startswith(self._own)

    def _look_up_all(self, path: str, names: Iterable[bytes]) -> None:
        for name in names:
            self.look_up(path, name)

    def digest(self) -> str:
        """Return the digest of the files and of their includes. It also tells links to one file
        from copies.
        """
        first: dict[tuple[object, ...], int] = {}
        lines = [
            b"file %s %d" % (file.digest.encode(), first.setdefault(file.state, len(first)))
            for file in self.files.values()
        ]
        return sha256(b"\n".join([*lines, *self._lines])).hexdigest()

    def _add(self, path: str) -> int:
        """Add a file. Return its number."""
        if path not in self.files:
            file = self._tree.file(path)
            assert file is not None
            self._numbers[path] = len(self._paths)
            self._paths.append(path)
            self.files[path] = file
        return self._numbers[path]


def _is_file(path: str) -> bool:
    """Return whether there is a file, of whichever type, for a compiler."""
    return os.path.exists(path) and not os.path.isdir(path)


def _read(path: str) -> SourceFile | None:
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            return None
        with open(path, "rb", buffering=0) as file:
            return SourceFile(
                file.readall(), state_from_stat(about), is_python=path.endswith(".py")
            )
    except (OSError, ValueError):
        return None
