"""The index of one folder of sys.path: its form, its reader and its writer.

An index is a file in ``<cache>/discovery/``. Its first line is ``devmod-index-2``, the check value
and the length of the rest, which is in the form of the module marshal: each other reader of Python
takes longer to import than a look-up::

    stamp                        of the folder
    names                        the normalized names of all its distributions, a space at both ends
                                 of each
    watched                      (stamp, path) of the other files and folders that must be unchanged
    distributions                those with devmod entries: (name, version, location, changed,
                                 problem), and (group, name, value) of each entry

A file with another layout has another first word.
"""

from __future__ import annotations

import marshal
import os

from devmod._plugins.claim import Distribution
from devmod._util.cache_folder import cache_dir, read_private

MAGIC = "devmod-index-2"
#: The form of marshal that each version of Python reads.
_MARSHAL = 2
_MAX_SIZE = 1 << 24  # of an index, in bytes
_PRIME = (1 << 128) - 159
#: The largest number of indexes. Every folder that was ever on sys.path may have one.
_MAX_INDEXES = 256
_MAX_BYTES = 64 << 20
#: `Folder.names` of a folder without distributions.
NO_NAMES = " "
_SECOND = 1_000_000_000
#: The coarsest resolution of file times, in ns (FAT).
_RESOLUTION = 2 * _SECOND


class Folder:
    """The devmod distributions of one folder or archive of sys.path, with the stamps that detect a
    change.

    Attributes
    ----------
    path
        Its real path.
    stamp
        The stamp of the folder itself when it was read.
    names
        The normalized names of all its distributions, a space at both ends of each.
    distributions
        The distributions with devmod entries.
    watched
        (stamp, path) of the other files and folders that must be unchanged.
    """

    def __init__(self, path: str, stamp: str) -> None:
        self.path = path
        self.stamp = stamp
        self.names = NO_NAMES
        self.distributions: list[Distribution] = []
        self.watched: list[tuple[str, str]] = []

    def is_current(self, stamp: str) -> bool:
        """Return whether nothing has changed. `stamp` is the folder's present stamp."""
        if self.stamp != stamp:
            return False
        return all(stamp_of(path) == recorded for recorded, path in self.watched)


def stamp_of(path: str) -> str:
    """Return the stamp of the file or folder at `path`; "" if it is missing."""
    try:
        return stamp_from_stat(os.stat(path))
    except (OSError, ValueError):
        return ""


def stamp_from_stat(status: os.stat_result) -> str:
    """Return device, inode, times and size as one string to compare."""
    return f"{status.st_dev} {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_size}"


def shows_change(status: os.stat_result, start: int, device: int | None = None) -> bool:
    """Return whether a change after `start` (ns) would change these times. They must have fractions
    of a second, except on `device`.
    """
    is_stable = max(status.st_mtime_ns, status.st_ctime_ns) <= start - _RESOLUTION
    return is_stable and (status.st_dev == device or status.st_ctime_ns % _SECOND != 0)


def check_value(data: bytes) -> str:
    """Return a check value that detects damage, but no attack. It is a residue modulo a prime: hash
    modules are slow to import.
    """
    return f"{int.from_bytes(data, 'little') % _PRIME:032x}"


def index_path(path: str) -> str:
    """Return the path of a folder's index file; "" without a cache. `path` is the folder's real
    path.
    """
    base = cache_dir()
    if not base:
        return ""
    return os.path.join(base, "discovery", check_value(os.fsencode(path)) + ".bin")


def read_index(path: str) -> Folder | None:
    """Return a folder's index; None if it is missing, damaged, of another version, or not private
    to this user. `path` is the folder's real path.
    """
    name = index_path(path)
    if not name:
        return None
    data = read_private(name, _MAX_SIZE)  # an index has names of code to import
    if data is None:
        return None
    head, _, body = data.partition(b"\n")
    if head != f"{MAGIC} {check_value(body)} {len(body)}".encode():
        return None
    folder = Folder(path, "")
    # The file is this user's own and is not damaged.
    folder.stamp, folder.names, folder.watched, rows = marshal.loads(body)  # noqa: S302
    for *fields, entries in rows:
        distribution = Distribution(*fields)
        distribution.entries = entries
        folder.distributions.append(distribution)
    return folder


def write_index(folder: Folder) -> bool:
    """Write the index of a folder into the cache. Return whether that succeeded."""
    from devmod._util.cache_files import files, remove_oldest
    from devmod._util.cache_folder import write_private

    rows = []
    for each in folder.distributions:
        row = (each.name, each.version, each.location, each.changed, each.problem, each.entries)
        rows.append(row)
    body = marshal.dumps((folder.stamp, folder.names, folder.watched, rows), _MARSHAL)
    head = f"{MAGIC} {check_value(body)} {len(body)}\n".encode()
    name = index_path(folder.path)
    if not name or not write_private(name, head + body):
        return False
    remove_oldest(files(os.path.dirname(name)), _MAX_BYTES, _MAX_INDEXES)
    return True
