"""The files of all caches: listing them, and removing the least recently used."""

from __future__ import annotations

import os
import stat
import time

from devmod._util.cache_folder import folder_problem, read_private
from devmod._util.text import is_valid_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The unit of disk space, in bytes.
_BLOCK = 4096
#: The age in ns at which a temporary file of a killed process is removed.
_STALE_AGE = 3600 * 1_000_000_000
#: The file that marks a folder of `program_cache`. Its name and its first line are those of the
#: cache directory tagging specification, so backups may leave the folder out.
TAG = "CACHEDIR.TAG"
TAG_TEXT = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# This folder has caches of programs that devmod starts. devmod may remove each file in it.\n"
)
_HEX = frozenset("0123456789abcdef")
#: The largest number of entries of all kinds. Listing them takes a fraction of a second.
_MAX_ENTRIES = 16384
#: The bytes that this process has written into each cache folder since it last listed it.
_written: dict[str, int] = {}


class CacheFile:
    """A file of a cache: an entry, or the temporary file of a process that was killed while it
    wrote one.
    """

    def __init__(self, path: str, size: int, last_use: int, temporary: bool) -> None:
        self.path = path
        self.size = size  # of disk space
        self.last_use = last_use  # in ns since the epoch; a write counts
        self.temporary = temporary


def kinds(base: str) -> list[str]:
    """Return the kinds with entries in the cache folder `base`, sorted. The folder may hold other
    things, if a variable names a folder in general use.
    """
    try:
        with os.scandir(base) as entries:
            names = []
            for each in entries:
                is_kind = is_valid_name(each.name) and each.is_dir(follow_symlinks=False)
                if is_kind and next(files(each.path), None):
                    names.append(each.name)
            return sorted(names)
    except OSError:
        return []


def files(folder: str) -> Iterator[CacheFile]:
    """Yield the files of one kind's folder. Other files are ignored: they are never counted or
    removed.
    """
    if is_tagged(folder):
        yield from _all_files(folder)
        return
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                name, _, rest = each.name.partition(".")
                suffix, _, rest = rest.partition(".")
                if len(name) not in (32, 64) or not _HEX.issuperset(name):
                    continue
                if suffix not in ("bin", "devmod"):
                    continue
                if rest and not rest.endswith(".tmp"):
                    continue
                try:
                    about = each.stat(follow_symlinks=False)
                except OSError:
                    continue  # another process has removed it
                if stat.S_ISREG(about.st_mode):
                    size = disk_usage(about.st_size)
                    yield CacheFile(each.path, size, about.st_mtime_ns, temporary=bool(rest))
    except OSError:
        return


def is_tagged(folder: str) -> bool:
    """Return whether a folder is one of `program_cache`, in which all files are entries."""
    return read_private(os.path.join(folder, TAG), len(TAG_TEXT)) == TAG_TEXT


def _all_files(folder: str) -> Iterator[CacheFile]:
    """Yield the files in a folder of `program_cache` and in those below it, without the tag."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if place == folder and name.startswith(TAG):
                continue
            try:
                about = os.lstat(path)
            except OSError:
                continue  # another process has removed it
            if stat.S_ISREG(about.st_mode):
                last_use = max(about.st_atime_ns, about.st_mtime_ns)
                yield CacheFile(path, disk_usage(about.st_size), last_use, temporary=False)


def disk_usage(size: int) -> int:
    """Return the disk space of a file of that size."""
    return -(-size // _BLOCK) * _BLOCK


# Where to change: which files a cache on the disk keeps
#   here: `enforce_bound`, `remove_oldest`, `files`; `core/src/devmod/_util/program_cache.py` for
#     programs that devmod starts; `core/src/devmod/_util/disk_cache.py` (`size_bound`); what one
#     entry has: the backend's file, such as `plugins/devmod-vulkan/src/devmod_vulkan/_pipeline.py`
#     (`_store`)
#   tests: `core/tests/test_disk_cache.py`, `workbench/tests/test_cache_command.py`
def enforce_bound(base: str, size: int, bound: int, kind: str = "") -> None:
    """Remove the least recently used entries if all may take more than `bound` bytes. `size` bytes
    were just written.

    With `kind`, only the entries of that kind are counted and removed: a folder that is not
    devmod's may have other folders.

    Listing a large cache takes longer than writing one entry, so it is listed once for each 1/32 of
    the bound that is written. That much is left free, so one process stays within the bound. A
    process starts at a random point of the interval: many processes with few writes together list
    the cache as often as one process with many.
    """
    margin = bound // 32
    written = _written.get(base)
    if written is None:
        written = int.from_bytes(os.urandom(8), "little") % (margin + 1)
    _written[base] = written + disk_usage(size)
    if _written[base] <= margin:
        return
    _written[base] = 0
    remove_oldest(_bounded_files(base, kind), bound - margin, _MAX_ENTRIES)


def _bounded_files(base: str, kind: str) -> Iterator[CacheFile]:
    """Yield the files of a kind, or of all, that the bound counts."""
    counted = [kind] if kind else kinds(base)
    for each in counted:
        folder = os.path.join(base, each)
        if each != "discovery" and not folder_problem(folder):
            yield from files(folder)


def remove_oldest(files: Iterable[CacheFile], bound: int, most: int) -> None:
    """Remove the least recently used files until at most `bound` bytes and `most` files are left.

    Parameters
    ----------
    files
        The files. A temporary file is removed if it is an hour old, and is not counted.
    bound
        The largest disk space in bytes.
    most
        The largest number of files; 0 for no bound.
    """
    now = time.time_ns()
    entries = []
    for each in files:
        if not each.temporary:
            entries.append(each)
        elif each.last_use < now - _STALE_AGE:
            remove(each)
    total = sum(each.size for each in entries)
    count = len(entries)
    for each in sorted(entries, key=lambda each: (each.last_use, each.path)):
        if total <= bound and count <= most:
            return
        remove(each)
        total -= each.size
        count -= 1


def remove(file: CacheFile) -> bool:
    """Remove a file. Return whether it is removed, by this process or another one."""
    try:
        os.unlink(file.path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True
