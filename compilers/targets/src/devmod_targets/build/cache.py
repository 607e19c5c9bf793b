"""The cache of a build: the ``.devmod`` file of each job, by the key of all its inputs.

Any number of processes may use one cache at the same time: an entry is written whole or not at all.
`Entries.read` does not check an entry. The caller checks the digests in it, because another writer
of the cache can write any bytes.

The entry of a job with warnings or reports has a second module: constants with the texts
(docs/design/build.md, The cache).
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import devmod
from devmod.backend import (
    cache_dir,
    enforce_bound,
    environment_text,
    file_name,
    folder_problem,
    loads_own,
    policies,
    read_private,
    size_bound,
    write_private,
)
from devmod.errors import DevmodError, FormatError, describe_error
from devmod_targets.build.result import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Module
    from devmod_targets.build.closure import Closure
    from devmod_targets.build.plan import Job

    #: Entries by key.
    _Contents = dict[str, bytes | None]
    #: A cache. Its methods do not raise for errors of the disk or the network.
    Entries: TypeAlias = "FolderEntries | UrlEntries"

VARIABLE = "DEVMOD_BUILD_CACHE"
#: The format of the keys. Another number makes all entries of older releases unknown.
_FORMAT = "devmod build 4"
_SUFFIX = ".devmod"
#: The folder of the entries below the folder or the URL. Other files there are the user's.
_NAME = "build"
#: The name of the constant with the warnings and the compiler's reports: two arrays in one of JSON.
_TEXTS = "devmod.build.texts"
#: The fields of a job on which its result does not depend.
_IGNORED = ("kernel", "folder")

_ENTRY = r"[0-9a-f]{64}\.devmod"
#: A URL of a folder on this machine, as fsspec reads it.
_LOCAL = r"(?is)(?:file|local):(?://)?(?:/(?=[A-Za-z]:))?(.+)"
#: The credentials and the query of a URL.
_SECRETS = r"(?<=://)[^/?]+@|\?.+"
#: The number of requests at once: each waits for the network.
_REQUESTS = 16
#: The keys of the time of the last change in the listings of file systems.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created", "Created")


class CacheError(DevmodError, RuntimeError):
    """A cache cannot be used."""


# Where to change: what makes a build compile again
#   also: `toolchain.py` of the kind, such as
#     `compilers/targets/src/devmod_targets/opencl/toolchain.py` (`TOOLCHAIN`): the versions of its
#     compilers
#   tests: `compilers/targets/tests/test_build_stale.py`
def job_key(job: Job, closure: Closure, toolchain: str, *, with_sources: bool = False) -> str:
    """Return the key of a job's result: a digest of everything on which it depends. "" if that is
    unknown.

    The paths in the key are relative to the manifest's folder, so machines can share a cache.
    """
    if not closure.digest or not toolchain:
        return ""
    fields = {name: value for name, value in vars(job).items() if name not in _IGNORED}
    # A result with all functions is the same without it, and no other is stored.
    fields["options"] = [each for each in job.options if each != "--partial"]
    inputs = [_FORMAT, toolchain, closure.digest, with_sources, fields]
    return sha256(json.dumps(inputs, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def pack_entry(outcome: Outcome) -> bytes:
    """Return the entry of a job: its ``.devmod`` file, with the warnings and the reports of its
    compile.
    """
    if not outcome.warnings and not outcome.reports:
        return outcome.data
    texts = devmod.const_loader(
        {_TEXTS: json.dumps([outcome.warnings, outcome.reports]).encode()}, {}
    )
    return devmod.dumps(devmod.bundle(loads_own(outcome.data), texts), with_sources=True)


def unpack_entry(data: bytes) -> tuple[Module, Outcome]:
    """Return the module of an entry, and an outcome with the warnings and the reports. Raise
    FormatError if it is damaged.
    """
    root = loads_own(data)
    if root.kind != "bundle" or root.imports[-1].kind != "const_loader":
        return root, Outcome()
    *variants, constants = root.imports
    module = variants[0]
    if len(variants) > 1:
        module = devmod.bundle(*variants)
    try:
        stored: Any = constants.get_global(_TEXTS)
        warnings, reports = json.loads(bytes(stored))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"its warnings cannot be read: {error}") from None
    for texts in (warnings, reports):
        if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
            raise FormatError("its warnings are not an array of strings")
    return module, Outcome(warnings=tuple(warnings), reports=tuple(reports))


def open_entries(
    place: str | os.PathLike[str] | bool = True, *, default: bool = False
) -> Entries | None:
    """Return the cache at a folder or a URL; None for False, and if this user has no cache folder.

    Parameters
    ----------
    place
        The folder, or a URL of fsspec; ``file:///folder`` is the folder. Default:
        DEVMOD_BUILD_CACHE, else devmod's cache folder.
    default
        Use devmod's cache folder in any case.

    Raises
    ------
    CacheError
        The cache cannot be used. The message has the reason.
    """
    if place is False:
        return None
    text = ""
    if not default:
        if place is not True:
            text = os.fspath(place)
        text = text or environment_text(VARIABLE)
    place = text and local_place(text)
    if "://" in place:
        # Everyone who can write to it decides about the results, which have no signatures.
        if policies():
            raise CacheError(
                "the build cache at a URL cannot be used under a policy: its entries have no signatures. Use a folder of this machine, "
                "or unset DEVMOD_TRUST for the build"
            )
        return UrlEntries(place)
    base = cache_dir()
    if place:
        base = os.path.abspath(os.path.expanduser(file_name(place)))
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
    """Return why a file with some bytes cannot be written to a folder, or to the first folder above
    it that exists; "" if it can.
    """
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

    After the first entry that cannot be written, no entry is written, and `problem` has the reason.
    With `why`, nothing is written at all.
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

    def read_all(self, keys: Sequence[str]) -> _Contents:
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
            self.problem = _not_cached(
                _write_problem(self._folder, len(data)) or f"{self._folder!r} cannot be written"
            )

    def close(self, seconds: float | None = None) -> None:
        """Do nothing: each write enforces the bound."""

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, key + _SUFFIX)


# -- A build's cache at a URL: object stores and servers, through fsspec.


def local_place(place: str) -> str:
    """Return the folder of a URL on this machine, which has an owner to check, and any other place
    as it is.

    Raises
    ------
    CacheError
        A chain of file systems ends in a folder of this machine.
    """
    chain, _, last = place.rpartition("::")
    match = re.fullmatch(_LOCAL, last)
    if chain and "://" in place and (match or "://" not in last):
        folder = last
        if match:
            folder = match[1]
        raise CacheError(
            f"the build cache {_without_secrets(place)!r} cannot be used: it is a folder of this machine; name it alone: {folder}"
        )
    if match:
        return match[1]
    return place


class UrlEntries:
    """The entries below a URL. Everyone who can write there can change the contents of later
    builds.

    After an error of the network, the rest of the build works without the cache; `problem` has the
    reason.

    Raises
    ------
    CacheError
        The URL cannot be read.
    """

    def __init__(self, url: str) -> None:
        from devmod_targets.build.threads import Threads

        self._shown = _without_secrets(url)
        try:
            fsspec = import_module("fsspec")
        except ImportError as error:
            from devmod_targets.build.packages import import_problem

            why = import_problem(
                error, "fsspec", "devmod-core[remote]", subject="fsspec, which reads URLs,"
            )
            raise CacheError(f"the build cache {self._shown!r} cannot be used: {why}") from None
        self._url = url
        self._written = False
        self._writes = Threads(_REQUESTS)
        #: Why the cache is no longer used; "" while it works.
        self.problem = ""
        try:
            self._files, root = fsspec.core.url_to_fs(url)
            self._root = f"{str(root).rstrip('/')}/{_NAME}"
            self._files.makedirs(self._root, exist_ok=True)
            self._files.exists(self._path("0" * 64))
        except Exception as error:  # noqa: BLE001 - a file system may raise anything
            # The exceptions of file systems have the URL.
            cause = error if self._shown == url else None
            raise CacheError(
                f"the build cache {self._shown!r} cannot be reached: {self._describe(error)}"
            ) from cause

    def read(self, key: str) -> bytes | None:
        """Return an entry; None if there is none."""
        if self.problem:
            return None
        try:
            data = self._files.cat_file(self._path(key))
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - a file system may raise anything
            self._fail("read", error)
            return None
        return bytes(data)

    def read_all(self, keys: Sequence[str]) -> _Contents:
        """Return the entries by key, as `read` does."""
        from devmod_targets.build.threads import Threads

        result = {}

        def read(key: str) -> None:
            result[key] = self.read(key)

        threads = Threads(_REQUESTS)
        try:
            for key in keys:
                threads.start(read, key)
            threads.wait()
        finally:
            threads.close()
        return result

    def write(self, key: str, data: bytes) -> None:
        """Store an entry in another thread. A reader that gets only a part of it finds a wrong
        digest.
        """
        if not self.problem and len(data) <= size_bound():
            self._writes.start(self._write, self._path(key), data)

    def _write(self, path: str, data: bytes) -> None:
        if self.problem:
            return
        try:
            self._files.pipe_file(path, data)
            self._written = True
        except Exception as error:  # noqa: BLE001 - a file system may raise anything
            self._fail("written", error)

    @property
    def unwritten(self) -> int:
        """The number of entries that are not written yet."""
        return self._writes.open

    def close(self, seconds: float | None = None) -> None:
        """Complete the writes, and remove the oldest entries over the size bound.

        The age is that of the write: most stores have no time of the last use.

        Parameters
        ----------
        seconds
            For an interrupted build: the longest wait for the writes. No entry is removed.
        """
        if seconds is not None:
            try:
                self._writes.wait(seconds)
            finally:
                self._writes.close()
            return
        self._writes.wait()  # not closed after Ctrl-C: the interrupted build completes the writes
        self._writes.close()
        if self.problem or not self._written:
            return
        try:
            self._remove_oldest()
        except Exception as error:  # noqa: BLE001 - a file system may raise anything
            self._fail("listed", error)

    def _remove_oldest(self) -> None:
        """Remove the oldest entries over the size bound."""
        found = self._files.ls(self._root, detail=True, refresh=True)
        files = [each for each in found if _is_entry(each)]
        total = sum(each.get("size") or 0 for each in files)
        for each in sorted(files, key=_written_at):
            if total <= size_bound():
                return
            self._files.rm_file(each["name"])
            total -= each.get("size") or 0

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}{_SUFFIX}"

    def _fail(self, action: str, error: Exception) -> None:
        self.problem = f"the build cache {self._shown!r} cannot be {action}, and is not used any more: {self._describe(error)}"

    def _describe(self, error: Exception) -> str:
        """Return the text of an exception without the credentials and the query of the URL."""
        text = (_import_text(error) or describe_error(error)).replace(self._url, self._shown)
        for secret in re.findall(_SECRETS, self._url):
            text = text.replace(secret.strip("?@"), "…")
        return text


def _import_text(error: Exception) -> str:
    """Return what to install for a file system whose package is missing; "" for another error, or
    without devmod-remote.
    """
    if not isinstance(error, ImportError):
        return ""
    try:
        return str(import_module("devmod_remote").describe_import(error))
    except ImportError:
        return ""


def _without_secrets(url: str) -> str:
    """Return a URL for messages, without credentials and queries: the logs of builds are often
    public.
    """
    return re.sub(_SECRETS, "", url)


def _is_entry(file: dict[str, Any]) -> bool:
    name = str(file["name"]).rpartition("/")[2]
    return file.get("type") == "file" and re.fullmatch(_ENTRY, name) is not None


def _written_at(file: dict[str, Any]) -> tuple[str, str]:
    time = next((file[name] for name in _TIMES if file.get(name) is not None), "")
    if isinstance(time, (int, float)):
        time = f"{time:020.6f}"
    return str(time), str(file["name"])
