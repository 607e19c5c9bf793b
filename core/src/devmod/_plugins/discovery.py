"""Discovery of the distributions with devmod entries. Each folder of sys.path has a small index in
the cache.

This module is the warm path: it reads the indexes and checks that they are current.
`devmod._plugins.scan` reads the metadata of a folder without a current index, and is imported only
for that.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import get_ident

from devmod._plugins.claim import Distribution, normalize_name
from devmod._plugins.index_file import NO_NAMES, Folder, read_index, shows_change, stamp_from_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from devmod._values.code import Names

    Result = TypeVar("Result")


#: Listing a folder with fewer names and no metadata takes less time than reading an index.
_MANY_NAMES = 500

#: The folders that this process has read, by real path. Each use checks them for changes.
_folders_read: dict[str, Folder] = {}
#: The real paths of entries of sys.path that were looked at.
_real_paths: dict[str, str] = {}


#: The results of `once_per_scan` in the shared scans, by process and thread. A forked child
#: inherits those of the parent's other threads.
_shared: dict[tuple[int, int], dict[Names, Any]] = {}


class shared_scan:
    """Context manager: within it, this thread scans sys.path at most once. A look-up and its error
    then agree.
    """

    def __enter__(self) -> None:
        self.thread = os.getpid(), get_ident()
        self.nested = self.thread in _shared
        if not self.nested:
            _shared[self.thread] = {}

    def __exit__(self, *_: object) -> None:
        if not self.nested:
            _shared.pop(self.thread, None)


def distributions() -> list[Distribution]:
    """Return every distribution with devmod entries that this process can import now, in the order
    of sys.path.

    If two distributions have one name, the first is used, as in importlib.metadata. One with valid
    metadata replaces a broken one.
    """
    return once_per_scan(("distributions",), lambda: list(_scan_all()))


def once_per_scan(key: Names, make: Callable[[], Result]) -> Result:
    """Return ``make()``. Within `shared_scan` the result is cached under `key`; outside nothing is
    cached (R3).
    """
    results = _shared.get((os.getpid(), get_ident()))
    if results is None:
        return make()
    if key not in results:
        results[key] = make()
    return results[key]  # type: ignore[no-any-return]


def _scan_all() -> Iterator[Distribution]:
    earlier: list[Folder] = []
    seen = set()
    broken = []
    for folder in _sources():
        for distribution in folder.distributions:
            name = normalize_name(distribution.name)
            if distribution.problem:
                broken.append(distribution)
            elif name not in seen and not any(f" {name} " in one.names for one in earlier):
                seen.add(name)
                yield distribution
        if folder.names != NO_NAMES:
            earlier.append(folder)
    yield from broken


def _sources() -> Iterator[Folder]:
    """Yield the folders of sys.path, and one for each other finder, which has no path, in the order
    of sys.meta_path.
    """
    folders_done = False
    for finder in list(sys.meta_path):
        if _searches_sys_path(finder):
            if not folders_done:
                folders_done = True
                yield from _folders()
        elif hasattr(finder, "find_distributions"):
            from devmod._plugins.scan import distributions_of_finder

            other = Folder("", "")
            other.distributions = distributions_of_finder(finder)
            yield other
    if not folders_done:
        yield from _folders()


def _searches_sys_path(finder: object) -> bool:
    """Return whether it is PathFinder, or the finder that importlib_metadata (or a vendored copy)
    adds when it is imported.
    """
    cls = finder
    if not isinstance(cls, type):
        cls = type(finder)
    if cls.__name__ == "PathFinder":
        return "importlib" in cls.__module__
    return cls.__name__ == "MetadataPathFinder" and "importlib_metadata" in cls.__module__


def _folders() -> Iterator[Folder]:
    seen = set()
    for entry in list(sys.path):
        if not isinstance(entry, str):
            continue
        try:
            path, status = _real_path(entry)
        except (OSError, ValueError):
            continue
        if path not in seen:
            seen.add(path)
            yield _folder(path, status)


def _real_path(entry: str) -> tuple[str, os.stat_result]:
    """Return the real path of an entry of sys.path, and its status. To find it takes longer than to
    see that it is the known one.
    """
    # '' and relative entries are relative to the working directory.
    status = os.stat(entry or os.curdir)
    path = _real_paths.get(entry)
    try:
        if path is not None and (path == entry or os.path.samestat(os.stat(path), status)):
            return path, status
    except OSError:  # it was moved
        pass
    path = _real_paths[entry] = os.path.realpath(entry)
    return path, os.stat(path)


def _folder(path: str, status: os.stat_result) -> Folder:
    stamp = stamp_from_stat(status)
    for find in (_folders_read.get, read_index):
        known = find(path)
        if known is not None and known.is_current(stamp):
            _folders_read[path] = known
            return known

    folder, is_lasting = _read_folder(path, status)
    if is_lasting:
        _folders_read[path] = folder
    else:
        _folders_read.pop(path, None)
    return folder


def _read_folder(path: str, status: os.stat_result) -> tuple[Folder, bool]:
    """Read a folder of distributions, or an archive. Also return whether the result may be
    cached.
    """
    folder = Folder(path, stamp_from_stat(status))
    try:
        names = os.listdir(path)
    except OSError:
        names = []  # an archive, or a folder without permission
    infos = []
    for name in names:
        if name[-5:].lower() == "-info" and _is_metadata(path, name):
            infos.append(name)
    # It is cached in this process alone: each editable install has such a folder.
    if not infos and 0 < len(names) < _MANY_NAMES:
        return folder, shows_change(status, time.time_ns())
    from devmod._plugins.scan import scan

    return folder, scan(folder, infos, status)


def _is_metadata(path: str, name: str) -> bool:
    low = name.lower()
    if low.endswith((".dist-info", ".egg-info")):
        return low[0] != "~"  # pip's prefix of a folder that it could not remove
    return low == "egg-info" and path.lower().endswith(".egg")
