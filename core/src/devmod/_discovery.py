"""Finding the distributions that have devmod entries: one small index a folder of sys.path.

This is the warm path: it reads indexes and checks that they still hold. Reading a folder itself, and writing its index, is
`devmod._scan`, which is imported only then.

An index is a text file (UTF-8) in ``<cache>/discovery/``. Its first line is ``devmod-index-1``, the check value and the
length of all that follows. Each further line is a letter and fields, with a tab between any two::

    F  stamp  path                                  the folder: its stamp, its real path
    N  names                                        the normalized names of all its distributions, a space at both ends of each
    D  name  version  location  changed  problem    a distribution with devmod entries
    E  group  name  value                           an entry of the distribution above
    W  stamp  path                                  a file or folder that must not have changed either

A backslash, a tab and a newline in a field are written ``\\\\``, ``\\t`` and ``\\n``.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident

from devmod._cachedir import cache_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAGIC = "devmod-index-1"
_LARGEST = 1 << 24  # bytes: no index of ours comes near it
_MANY_NAMES = 500  # a folder with fewer names and no metadata is listed faster than it is worth an index
_PRIME = (1 << 128) - 159


class Distribution:
    """A distribution with entries in groups of ours: who it is, where, what it declares, and what is wrong with it."""

    __slots__ = ("changed", "entries", "location", "name", "problem", "version")

    def __init__(self, name: str, version: str, location: str, changed: int = 0, problem: str = "") -> None:
        self.name = name
        self.version = version
        self.location = location  # its metadata's folder, or the archive and the folder in it
        self.changed = changed  # ns since the epoch: when its metadata last changed; 0 not known
        self.problem = problem  # why none of its entries can be used; "" sound
        self.entries: list[tuple[str, str, str]] = []  # (group, name, value)


class Folder:
    """What one folder or archive of sys.path holds, and the stamps by which one can tell that it still does."""

    __slots__ = ("distributions", "names", "path", "stamp", "watched")

    def __init__(self, path: str, stamp: str) -> None:
        self.path = path
        self.stamp = stamp
        self.names = " "
        self.distributions: list[Distribution] = []
        self.watched: list[tuple[str, str]] = []  # (stamp, path)

    def holds(self, stamp: str) -> bool:
        """Whether nothing has changed, `stamp` being the folder's own as it is now."""
        return self.stamp == stamp and all(stamp_of(path) == kept for kept, path in self.watched)


#: What this process has read, by real path. Checked as an index on the disk is; it serves where there is no cache folder.
_memory: dict[str, Folder] = {}


#: What threads that are in the middle of one look-up go by; None where they have not looked yet. By process and thread: a
#: forked child inherits the entries of threads that it does not have.
_held: dict[tuple[int, int], list[Distribution] | None] = {}


class held:
    """Within it this thread reads the folders once: the parts of one look-up, and the words of its error, agree."""

    def __enter__(self) -> None:
        self.me = os.getpid(), get_ident()
        self.outer = self.me in _held
        if not self.outer:
            _held[self.me] = None

    def __exit__(self, *_: object) -> None:
        if not self.outer:
            _held.pop(self.me, None)


def distributions() -> Iterable[Distribution]:
    """Every distribution with devmod entries that this process can see now, in the order in which imports look.

    Of one that is found twice the first counts, as in importlib.metadata; one whose metadata is broken gives way to a whole one.
    """
    me = os.getpid(), get_ident()
    if me not in _held:
        return _found()
    known = _held[me]
    if known is None:
        known = _held[me] = list(_found())
    return known


def _found() -> Iterator[Distribution]:
    earlier: list[Folder] = []
    taken: set[str] = set()
    broken: list[Distribution] = []
    for folder, found in _sources():
        for distribution in found:
            name = normalized(distribution.name)
            if distribution.problem:
                broken.append(distribution)
            elif name not in taken and not any(f" {name} " in one.names for one in earlier):
                taken.add(name)
                yield distribution
        if folder is not None:
            earlier.append(folder)
    yield from broken


def normalized(name: str) -> str:
    """A distribution's name as PEP 503 compares it: lower case, each run of ``-_.`` one hyphen."""
    name = name.lower().replace("_", "-").replace(".", "-")
    while "--" in name:
        name = name.replace("--", "-")
    return name


def stamp_of(path: str) -> str:
    """Device, inode, times and size of what is at `path`, as one string to compare; "" where nothing is."""
    try:
        return stamped(os.stat(path))
    except (OSError, ValueError):
        return ""


def stamped(found: os.stat_result) -> str:
    """The stamp of a stat result."""
    return f"{found.st_dev} {found.st_ino} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_size}"


def check_value(data: bytes) -> str:
    """A check value against damage, not against malice. The residue of a prime: a hash module costs more to import."""
    return f"{int.from_bytes(data, 'little') % _PRIME:032x}"


def index_path(path: str) -> str:
    """The index file of the folder with that real path; "" where there is no cache."""
    base = cache_dir()
    return os.path.join(base, "discovery", check_value(os.fsencode(path)) + ".txt") if base else ""


def _sources() -> Iterator[tuple[Folder | None, Iterable[Distribution]]]:
    """The folders of sys.path, and in their own places what other finders know, which no index can answer for."""
    looked = False
    for finder in list(sys.meta_path):
        if _searches_sys_path(finder):
            if not looked:
                looked = True
                yield from _folders()
        elif hasattr(finder, "find_distributions"):
            from devmod._scan import ask

            yield None, ask(finder)
    if not looked:
        yield from _folders()


def _searches_sys_path(finder: object) -> bool:
    """Whether it is PathFinder, or the finder that importlib_metadata adds when it is imported (vendored copies too)."""
    named = finder if isinstance(finder, type) else type(finder)
    return (named.__name__ == "PathFinder" and "importlib" in named.__module__) or (
        named.__name__ == "MetadataPathFinder" and "importlib_metadata" in named.__module__
    )


def _folders() -> Iterator[tuple[Folder, Iterable[Distribution]]]:
    seen = set()
    for entry in list(sys.path):
        if isinstance(entry, str):
            try:
                path = os.path.realpath(entry)  # '' and relative entries mean the working directory
                found = os.stat(path)
            except (OSError, ValueError):
                continue
            if path not in seen:
                seen.add(path)
                folder = _folder(path, found)
                yield folder, folder.distributions


def _folder(path: str, found: os.stat_result) -> Folder:
    stamp = stamped(found)
    known = _memory.get(path)
    if known is None or not known.holds(stamp):
        known = read_index(path)
        if known is None or not known.holds(stamp):
            names = _names_in(path)
            infos = [name for name in names if name[-5:].lower() == "-info" and _is_metadata(path, name)]
            known = Folder(path, stamp)
            if not infos and 0 < len(names) < _MANY_NAMES:
                return known
            from devmod._scan import scan

            if not scan(known, infos, found):
                _memory.pop(path, None)
                return known
        _memory[path] = known
    return known


def _names_in(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []  # an archive, or a folder that may not be listed


def _is_metadata(path: str, name: str) -> bool:
    low = name.lower()
    if low.endswith((".dist-info", ".egg-info")):
        return low[0] != "~"  # so begins what pip has moved aside and could not remove
    return low == "egg-info" and path.lower().endswith(".egg")


def read_index(path: str) -> Folder | None:
    """The index of the folder with that real path; None where there is none that can be trusted and read."""
    name = index_path(path)
    if not name:
        return None
    try:
        # Without O_NONBLOCK a pipe of that name would hold the process up.
        file = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    try:
        about = os.fstat(file)
        # An index names code to import, so nobody else may have written it.
        if os.name == "posix" and (about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o022):
            return None
        if about.st_size > _LARGEST:
            return None
        data = os.read(file, about.st_size + 1)
    except OSError:
        return None
    finally:
        os.close(file)
    return parse_index(path, data)


def parse_index(path: str, data: bytes) -> Folder | None:
    """What an index file says; None where it is damaged or of another version."""
    head, _, body = data.partition(b"\n")
    if head != f"{MAGIC} {check_value(body)} {len(body)}".encode():
        return None
    folder = Folder(path, "")
    try:
        for line in body.decode("utf-8", "surrogateescape").split("\n"):
            letter, *fields = line.split("\t")
            if "\\" in line:
                fields = [unescaped(field) for field in fields]
            if letter == "E":
                group, entry, value = fields
                folder.distributions[-1].entries.append((group, entry, value))
            elif letter == "W":
                stamp, watched = fields
                folder.watched.append((stamp, watched))
            elif letter == "D":
                name, version, location, changed, problem = fields
                folder.distributions.append(Distribution(name, version, location, int(changed), problem))
            elif letter == "N":
                (folder.names,) = fields
            elif letter == "F":
                folder.stamp, _ = fields  # the path is for people; the file's name has it
            elif line:
                return None
    except (ValueError, IndexError):
        return None
    return folder


def unescaped(field: str) -> str:
    """A field as it was before the index was written."""
    return "\\".join(part.replace("\\t", "\t").replace("\\n", "\n") for part in field.split("\\\\"))
