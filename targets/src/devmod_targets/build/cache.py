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
from devmod.errors import DevmodError, FormatError
from devmod_targets.build.result import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from devmod import Module
    from devmod_targets.build.closure import Closure
    from devmod_targets.build.plan import Job
    from devmod_targets.build.url_cache import UrlEntries

    #: A cache. Its methods do not raise for errors of the disk or the network.
    Entries: TypeAlias = "FolderEntries | UrlEntries"

VARIABLE = "DEVMOD_BUILD_CACHE"
#: The format of the keys. Another number makes all entries of older releases unknown.
_FORMAT = "devmod build 4"
SUFFIX = ".devmod"
#: The folder of the entries below the folder or the URL. Other files there are the user's.
FOLDER = "build"
#: The name of the constant with the warnings and the compiler's reports: two arrays in one of JSON.
_TEXTS = "devmod.build.texts"
#: The fields of a job on which its result does not depend.
_IGNORED = ("kernel", "folder")


class CacheError(DevmodError, RuntimeError):
    """A cache cannot be used."""


def job_key(job: Job, closure: Closure, toolchain: str, *, with_sources: bool = False) -> str:
    """Return the key of a job's result: a digest of everything on which it depends. "" if that is unknown.

    The paths in the key are relative to the manifest's folder, so machines can share a cache.
    """
    if not closure.digest or not toolchain:
        return ""
    fields = {name: value for name, value in job._asdict().items() if name not in _IGNORED}
    inputs = [_FORMAT, toolchain, closure.digest, with_sources, fields]
    return sha256(json.dumps(inputs, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def pack_entry(outcome: Outcome) -> bytes:
    """Return the entry of a job: its ``.devmod`` file, with the warnings and the reports of its compile."""
    if not outcome.warnings and not outcome.reports:
        return outcome.data
    texts = devmod.const_loader({_TEXTS: json.dumps([outcome.warnings, outcome.reports]).encode()}, {})
    return devmod.dumps(devmod.bundle(devmod.loads(outcome.data), texts), with_sources=True)


def unpack_entry(data: bytes) -> tuple[Module, Outcome]:
    """Return the module of an entry, and an outcome with the warnings and the reports. Raise FormatError if it is damaged."""
    root = devmod.loads(data)
    if root.kind != "bundle" or len(root.imports) != 2 or root.imports[1].kind != "const_loader":
        return root, Outcome()
    module, constants = root.imports
    try:
        stored: Any = constants.get_global(_TEXTS)
        warnings, reports = json.loads(bytes(stored))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"its warnings cannot be read: {error}") from None
    for texts in (warnings, reports):
        if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
            raise FormatError("its warnings are not an array of strings")
    return module, Outcome(warnings=tuple(warnings), reports=tuple(reports))


def open_entries(place: str | os.PathLike[str] | bool = True, *, default: bool = False) -> Entries | None:
    """Return the cache at a folder or a URL; None for False, and if this user has no cache folder.

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
    if place is False:
        return None
    place = "" if default else ("" if place is True else os.fspath(place)) or environment_text(VARIABLE)
    if ":" in place:
        from devmod_targets.build.url_cache import UrlEntries, local_place

        place = local_place(place)
        if "://" in place:
            return UrlEntries(place)
    base = os.path.abspath(os.path.expanduser(file_name(place))) if place else cache_dir()
    if not base:
        return None
    folder = os.path.join(base, FOLDER)
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
        self._folder = os.path.join(base, FOLDER)
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
            enforce_bound(self._base, len(data), bound, "" if self._base == cache_dir() else FOLDER)
        else:
            self.problem = _not_cached(_write_problem(self._folder, len(data)) or f"{self._folder!r} cannot be written")

    def close(self, seconds: float | None = None) -> None:
        """Do nothing: each write enforces the bound."""

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, key + SUFFIX)
