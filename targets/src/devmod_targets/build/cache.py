"""The cache of a build: the ``.devmod`` file of each job, by the key of all its inputs.

Any number of processes may use one cache at the same time: an entry is written whole or not at all. `Entries.read` does not check an
entry. The caller checks the digests in it, because another writer of the cache can write any bytes.

The entry of a job with warnings or reports has a second module: constants with the texts (docs/design/build.md, The cache).
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import sha256

import devmod
from devmod.backend import cache_dir, enforce_bound, environment_text, file_name, folder_problem, read_private, size_bound, write_private
from devmod.errors import FormatError
from devmod_targets.build.cache_url import CacheError, UrlEntries, local_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    from devmod import Module
    from devmod_targets.build.closure import Closure
    from devmod_targets.build.plan import Job

    class Entries(Protocol):
        """The entries of a cache. The methods do not raise for errors of the disk or the network."""

        #: Why the cache is no longer used; "" while it works.
        problem: str

        def read(self, key: str) -> bytes | None:
            """Return an entry; None if there is none."""

        def read_all(self, keys: Sequence[str]) -> dict[str, bytes | None]:
            """Return the entries by key, as `read` does."""

        def write(self, key: str, data: bytes) -> None:
            """Store an entry."""

        @property
        def unwritten(self) -> int:
            """The number of entries that are not written yet."""

        def close(self, seconds: float | None = None) -> None:
            """Complete the writes, in at most so many seconds."""


VARIABLE = "DEVMOD_BUILD_CACHE"
#: The format of the keys. Another number makes all entries of older releases unknown.
_FORMAT = "devmod build 3"
_SUFFIX = ".devmod"
_NAME = "build"
#: The names of the constants with the warnings and with the compiler's reports, each an array of JSON.
_WARNINGS, _REPORTS = "devmod.build.warnings", "devmod.build.reports"
#: The fields of a job on which its result does not depend.
_IGNORED = ("kernel", "folder")


def job_key(job: Job, closure: Closure, toolchain: str, *, with_sources: bool = False) -> str:
    """Return the key of a job's result: a digest of everything on which it depends. "" if that is unknown.

    The paths in the key are relative to the manifest's folder, so machines can share a cache.
    """
    if not closure.digest or not toolchain:
        return ""
    fields = {name: getattr(job, name) for name in job.__slots__ if name not in _IGNORED}
    inputs = [_FORMAT, toolchain, closure.digest, with_sources, fields]
    return sha256(json.dumps(inputs, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def pack_entry(data: bytes, warnings: Sequence[str], reports: Sequence[str] = ()) -> bytes:
    """Return the entry of a job: its ``.devmod`` file, with the warnings and the reports of its compile."""
    if not warnings and not reports:
        return data
    constants = {_WARNINGS: json.dumps(list(warnings)).encode()}
    if reports:
        constants[_REPORTS] = json.dumps(list(reports)).encode()
    texts = devmod.const_loader(constants, {})
    return devmod.dumps(devmod.bundle(devmod.loads(data), texts), with_sources=True)


def unpack_entry(data: bytes) -> tuple[Module, tuple[str, ...], tuple[str, ...]]:
    """Return the module, the warnings and the reports of an entry. Raise FormatError if it is damaged."""
    root = devmod.loads(data)
    if root.kind != "bundle" or len(root.imports) != 2 or root.imports[1].kind != "const_loader":
        return root, (), ()
    module, constants = root.imports
    warnings = _texts(constants, _WARNINGS)
    try:
        constants.get_global(_REPORTS)
    except KeyError:
        return module, warnings, ()
    return module, warnings, _texts(constants, _REPORTS)


def _texts(constants: Module, name: str) -> tuple[str, ...]:
    try:
        stored: Any = constants.get_global(name)
        texts = json.loads(bytes(stored))
    except (KeyError, ValueError) as error:
        raise FormatError(f"its warnings cannot be read: {error}") from None
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise FormatError("its warnings are not an array of strings")
    return tuple(texts)


def open_entries(place: str = "", *, default: bool = False) -> Entries | None:
    """Return the cache at a folder or a URL; None if this user has no cache folder.

    Parameters
    ----------
    place
        The folder, or a URL of fsspec; ``file:///folder`` is the folder. Default: DEVMOD_BUILD_CACHE, else devmod's cache folder.
    default
        Use devmod's cache folder in any case.

    Raises
    ------
    CacheError
        The cache cannot be used. The message has the reason.
    """
    place = "" if default else local_place(place or environment_text(VARIABLE))
    if "://" in place:
        return UrlEntries(place)
    base = os.path.abspath(os.path.expanduser(file_name(place))) if place else cache_dir()
    if not base:
        return None
    folder = os.path.join(base, _NAME)
    problem = folder_problem(base) or folder_problem(folder)
    if place and not (problem or os.path.exists(folder)):
        problem = _write_problem(folder)
    if problem and place:
        raise CacheError(f"the build cache {place!r} cannot be used: {problem}")
    return FolderEntries(base, problem)


def _not_cached(why: str) -> str:
    return f"{why}: results are not cached, and the next build compiles them again"


def _write_problem(folder: str, nbytes: int = 0) -> str:
    """Return why a file with some bytes cannot be written to a folder, or to the first folder above it that exists; "" if it can."""
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    path = os.path.join(folder, f".devmod-{os.getpid()}.tmp")
    try:
        with open(path, "xb") as file:
            file.write(bytes(nbytes))
    except OSError as error:
        return f"a file in {folder!r} cannot be written ({error.strerror})"
    finally:
        with suppress(OSError):
            os.unlink(path)
    return ""


class FolderEntries:
    """The entries in a folder, in its subfolder ``build``. Only this user can write to it.

    After the first entry that cannot be written, no entry is written, and `problem` has the reason. With `why`, nothing is written at all.
    """

    #: Each write is complete when it returns.
    unwritten = 0

    def __init__(self, base: str, why: str = "") -> None:
        self._base = base
        self._folder = os.path.join(base, _NAME)
        #: Why no entry is written any more; "" while it works.
        self.problem = why and _not_cached(why)

    def read(self, key: str) -> bytes | None:
        """Return an entry; None if there is none. The entry then counts as used."""
        return read_private(self._path(key), size_bound(), touch=True)

    def read_all(self, keys: Sequence[str]) -> dict[str, bytes | None]:
        """Return the entries by key, as `read` does."""
        return dict(zip(keys, map(self.read, keys), strict=True))

    def write(self, key: str, data: bytes) -> None:
        """Store an entry. Above the size bound, the least recently used entries are removed."""
        bound = size_bound()
        if self.problem or len(data) > bound:
            return
        if write_private(self._path(key), data):
            enforce_bound(self._base, len(data), bound, "" if self._base == cache_dir() else _NAME)
        else:
            self.problem = _not_cached(_write_problem(self._folder, len(data)) or f"{self._folder!r} cannot be written")

    def close(self, seconds: float | None = None) -> None:
        """Do nothing: each write enforces the bound."""

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, key + _SUFFIX)
