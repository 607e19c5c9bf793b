"""The cache of a build: the ``.devmod`` file of each job, by the key of all its inputs.

Any number of processes may use one cache at the same time: an entry is written whole or not at all. `Entries.read` does not check an
entry. The caller checks the digests in it, because another writer of the cache can write any bytes.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256

from devmod.backend import cache_dir, enforce_bound, environment_text, folder_problem, read_private, size_bound, write_private
from devmod_targets.build.cache_url import CacheError, UrlEntries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from devmod_targets.build.closure import Closure
    from devmod_targets.build.plan import Job

    class Entries(Protocol):
        """The entries of a cache. The methods do not raise for errors of the disk or the network."""

        #: The number of threads that may use it at once: more than one if its calls wait for a network.
        threads: int
        #: Why the cache is no longer used; "" while it works.
        problem: str

        def read(self, key: str) -> bytes | None:
            """Return an entry; None if there is none."""

        def write(self, key: str, data: bytes) -> None:
            """Store an entry."""

        def close(self, *, cancel: bool = False) -> None:
            """Complete the writes, and remove the oldest entries over the size bound. `cancel` drops entries that are not written."""


VARIABLE = "DEVMOD_BUILD_CACHE"
#: The format of the keys. Another number makes all entries of older releases unknown.
_FORMAT = "devmod build 1"
_SUFFIX = ".devmod"
_NAME = "build"
#: The fields of a job on which its result does not depend, and those with paths, whose files are in the digest of the closure.
_IGNORED = ("kernel", "folder", "source", "include")


def job_key(job: Job, closure: Closure, toolchain: str, *, with_sources: bool = False) -> str:
    """Return the key of a job's result: a digest of everything on which it depends. "" if that is unknown.

    The key contains no path, so machines can share a cache.
    """
    if not closure.digest or not toolchain:
        return ""
    fields = {name: getattr(job, name) for name in job.__slots__ if name not in _IGNORED}
    inputs = [_FORMAT, toolchain, os.path.basename(job.source), closure.digest, with_sources, fields]
    return sha256(json.dumps(inputs, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def open_entries(place: str = "", *, default: bool = False) -> Entries | None:
    """Return the cache at a folder or a URL; None if this user has no cache folder.

    Parameters
    ----------
    place
        The folder, or a URL of fsspec. Default: DEVMOD_BUILD_CACHE, else devmod's cache folder.
    default
        Use devmod's cache folder in any case.

    Raises
    ------
    CacheError
        The cache cannot be used. The message has the reason.
    """
    place = "" if default else place or environment_text(VARIABLE)
    if "://" in place:
        return UrlEntries(place)
    base = os.path.abspath(os.path.expanduser(place)) if place else cache_dir()
    if not base:
        return None
    problem = folder_problem(base) or folder_problem(os.path.join(base, _NAME))
    if problem and place:
        raise CacheError(f"the build cache {place!r} cannot be used: {problem}")
    return None if problem else FolderEntries(base)


class FolderEntries:
    """The entries in a folder, in its subfolder ``build``. Only this user can write to it."""

    threads = 1
    problem = ""

    def __init__(self, base: str) -> None:
        self._base = base
        self._folder = os.path.join(base, _NAME)

    def read(self, key: str) -> bytes | None:
        """Return an entry; None if there is none. The entry then counts as used."""
        return read_private(self._path(key), size_bound(), touch=True)

    def write(self, key: str, data: bytes) -> None:
        """Store an entry. Above the size bound, the least recently used entries are removed."""
        bound = size_bound()
        if len(data) <= bound and write_private(self._path(key), data):
            enforce_bound(self._base, len(data), bound)

    def close(self, *, cancel: bool = False) -> None:
        """Do nothing: each write enforces the bound."""

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, key + _SUFFIX)
