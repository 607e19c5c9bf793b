"""A build's cache at a URL: object stores and servers, through fsspec."""

from __future__ import annotations

import re
from importlib import import_module

from devmod.backend import size_bound
from devmod.errors import describe_error
from devmod_targets.build.cache import FOLDER, SUFFIX, CacheError
from devmod_targets.build.packages import import_problem
from devmod_targets.build.threads import Threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_ENTRY = re.compile(r"[0-9a-f]{64}" + re.escape(SUFFIX))
#: A URL of a folder on this machine, as fsspec reads it.
_LOCAL = re.compile(r"(?:file|local):(?://)?(?:/(?=[A-Za-z]:))?(.+)", re.IGNORECASE | re.DOTALL)
#: The credentials and the query of a URL.
_SECRETS = re.compile(r"(?<=://)[^/?]+@|\?.+")
#: The number of requests at once: each waits for the network.
_REQUESTS = 16
#: The keys of the time of the last change in the listings of file systems.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created", "Created")


def local_place(place: str) -> str:
    """Return the folder of a URL on this machine, which has an owner to check, and any other place as it is.

    Raises
    ------
    CacheError
        A chain of file systems ends in a folder of this machine.
    """
    chain, _, last = place.rpartition("::")
    match = _LOCAL.fullmatch(last)
    if chain and "://" in place and (match or "://" not in last):
        folder = match[1] if match else last
        raise CacheError(
            f"the build cache {_without_secrets(place)!r} cannot be used: it is a folder of this machine; name it alone: {folder}"
        )
    return match[1] if match else place


class UrlEntries:
    """The entries below a URL. Everyone who can write there can change the contents of later builds.

    After an error of the network, the rest of the build works without the cache; `problem` has the reason.

    Raises
    ------
    CacheError
        The URL cannot be read.
    """

    def __init__(self, url: str) -> None:
        self._shown = _without_secrets(url)
        try:
            fsspec = import_module("fsspec")
        except ImportError as error:
            why = import_problem(error, "fsspec", "devmod-core[remote]", subject="fsspec, which reads URLs,")
            raise CacheError(f"the build cache {self._shown!r} cannot be used: {why}") from None
        self._url = url
        self._written = False
        self._writes = Threads(_REQUESTS)
        #: Why the cache is no longer used; "" while it works.
        self.problem = ""
        try:
            self._files, root = fsspec.core.url_to_fs(url)
            self._root = f"{str(root).rstrip('/')}/{FOLDER}"
            self._files.makedirs(self._root, exist_ok=True)
            self._files.exists(self._path("0" * 64))
        except Exception as error:  # noqa: BLE001 - a file system may raise anything
            cause = error if self._shown == url else None  # the exceptions of file systems have the URL
            raise CacheError(f"the build cache {self._shown!r} cannot be reached: {self._describe(error)}") from cause

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

    def read_all(self, keys: Sequence[str]) -> dict[str, bytes | None]:
        """Return the entries by key, as `read` does."""
        result: dict[str, bytes | None] = {}

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
        """Store an entry in another thread. A reader that gets only a part of it finds a wrong digest."""
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
            found = self._files.ls(self._root, detail=True, refresh=True)
            files = [each for each in found if each.get("type") == "file" and _ENTRY.fullmatch(str(each["name"]).rpartition("/")[2])]
            total = sum(each.get("size") or 0 for each in files)
            for each in sorted(files, key=_written_at):
                if total <= size_bound():
                    return
                self._files.rm_file(each["name"])
                total -= each.get("size") or 0
        except Exception as error:  # noqa: BLE001 - a file system may raise anything
            self._fail("listed", error)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}{SUFFIX}"

    def _fail(self, action: str, error: Exception) -> None:
        self.problem = f"the build cache {self._shown!r} cannot be {action}, and is not used any more: {self._describe(error)}"

    def _describe(self, error: Exception) -> str:
        """Return the text of an exception without the credentials and the query of the URL."""
        text = (_import_text(error) or describe_error(error)).replace(self._url, self._shown)
        for secret in _SECRETS.findall(self._url):
            text = text.replace(secret.strip("?@"), "…")
        return text


def _import_text(error: Exception) -> str:
    """Return what to install for a file system whose package is missing; "" for another error, or without devmod-remote."""
    try:
        return str(import_module("devmod_remote").describe_import(error)) if isinstance(error, ImportError) else ""
    except ImportError:
        return ""


def _without_secrets(url: str) -> str:
    """Return a URL for messages, without credentials and queries: the logs of builds are often public."""
    return _SECRETS.sub("", url)


def _written_at(file: dict[str, Any]) -> tuple[str, str]:
    time = next((file[name] for name in _TIMES if file.get(name) is not None), "")
    return f"{time:020.6f}" if isinstance(time, (int, float)) else str(time), str(file["name"])
