"""The bytes of a bundle at a URL: from the cache on the disk, or through fsspec.

The cache has the parts of the index and the modules' bytes by their SHA-256, and the first bytes of
each bundle by its URL and `storage_options`.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from devmod.backend import HEADER, MAX_SIGNATURE, DiskCache, debug, environment_flag, open_regular
from devmod.errors import (
    ArgumentError,
    FetchError,
    FormatError,
    describe_error,
    not_installed,
    own_module,
)
from devmod_remote._http import HttpError, get_range

#: The size of the first read. It contains the index of most bundles, and the head of one of 30,000
#: functions.
FIRST = 28 << 10
#: The pause before the second attempt, in seconds. It doubles with each attempt.
_PAUSE = 0.1
_PERMANENT = (
    FormatError,
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    FetchError,
)
#: The schemes of URLs. fsspec's other file systems read through a second one, or send HTTP requests
#: to any server without the checks of `_http`.
_SCHEMES = (
    "abfs",
    "abfss",
    "adl",
    "az",
    "box",
    "dbfs",
    "dropbox",
    "file",
    "ftp",
    "gcs",
    "gdrive",
    "github",
    "gs",
    "hdfs",
    "hf",
    "http",
    "https",
    "lakefs",
    "local",
    "memory",
    "oss",
    "root",
    "s3",
    "s3a",
    "sftp",
    "smb",
    "ssh",
    "tos",
    "wandb",
)
#: What to do instead of a URL of another scheme.
_INSTEAD = {
    **dict.fromkeys(
        ("zip", "tar", "libarchive"),
        "Get the archive and unpack it; devmod.load also takes zipfile.Path(archive, name) for a file in it",
    ),
    "oci": "The program oras gets a file of a registry. Oracle's object storage: devmod.load(fsspec.open(url).open())",
    **dict.fromkeys(
        ("simplecache", "filecache", "blockcache", "cached"),
        "devmod has a cache of its own: load the URL of the bundle without this part",
    ),
}

#: Names of files are in listings and in backups. With so many iterations, a guess at a password
#: takes 20 ms.
_ITERATIONS = 100_000

#: What pip installs for a module that fsspec imports. A module that is not here has fsspec's own
#: text: its distribution may have another name, which anyone may register.
_REQUIREMENTS = {
    "adlfs": "adlfs",
    "boxfs": "boxfs",
    "distributed": "distributed",
    "dvc": "dvc",
    "gcsfs": "gcsfs",
    "ossfs": "ossfs",
    "paramiko": "paramiko",
    "pyarrow": "pyarrow",
    "pygit2": "pygit2",
    "requests": "requests",
    "s3fs": "s3fs",
    "tosfs": "tosfs",
    "wandbfs": "wandbfs",
    "dropboxdrivefs": "fsspec[dropbox]",
    "fsspec_xrootd": "fsspec-xrootd",
    "huggingface_hub": "huggingface-hub",
    "lakefs_spec": "lakefs-spec",
    "libarchive": "libarchive-c",
    "morefs": "morefs[asynclocalfs]",
    "smbclient": "smbprotocol",
    "webdav4": "webdav4[fsspec]",
}


class UrlSource:
    """A bundle at a URL. No connection is used after a read, and a forked process reads too.

    Parameters
    ----------
    url
        A URL with one of `_SCHEMES`.
    offline
        Use the cache alone. None: DEVMOD_OFFLINE decides.
    timeout
        For HTTP: the longest wait for a connection, and for the next bytes, in seconds.
    retries
        How often a failed read is repeated.
    storage_options
        The options of fsspec's file system. Offline, they must be those with which the bundle was
        loaded before.

    Attributes
    ----------
    place
        The URL for messages, without secrets.
    address
        The URL without credentials and query, for a policy.
    size
        The size of the bundle; -1 as long as it is unknown.

    Raises
    ------
    ArgumentError
        An option is invalid.
    FetchError
        The URL has another scheme, or is a chain of URLs.
    """

    def __init__(
        self,
        url: str,
        *,
        offline: bool | None = None,
        timeout: float = 30,
        retries: int = 3,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if not (isinstance(timeout, (int, float)) and timeout > 0):
            raise ArgumentError(
                f"load(url): timeout is a number of seconds above 0, not {timeout!r}",
                argument="timeout",
            )
        if not (isinstance(retries, int) and retries >= 0):
            raise ArgumentError(
                f"load(url): retries is a number of further attempts, not {retries!r}",
                argument="retries",
            )
        if not isinstance(storage_options, (Mapping, type(None))):
            raise ArgumentError(
                f"load(url): storage_options is a map of options, not {storage_options!r}",
                argument="storage_options",
            )
        scheme = url.partition("://")[0]
        if scheme not in _SCHEMES:
            raise _unsupported(scheme)
        self.place = repr(_without_secrets(url))
        self.address = _without_secrets(url.partition("?")[0])
        self.size = -1
        self._url = url
        self._scheme = scheme
        #: A file of this machine is neither cached nor remote.
        self._is_local = scheme in ("file", "local")
        if offline is None:
            offline = environment_flag("DEVMOD_OFFLINE")
        self._offline = not self._is_local and bool(offline)
        self._timeout = timeout
        self._retries = retries
        self._options = dict(storage_options or {})
        self._cache = DiskCache("remote")
        self._first = b""

    # -- what core calls

    def head(self, size: int = FIRST) -> bytes:
        """Return the first bytes, with the header and perhaps the index.

        Raises
        ------
        FetchError
            They cannot be read; offline, they are not in the cache.
        """
        key = ""
        try:
            if not self._is_local:
                key = key_of(self._url, self._options, has_secrets=bool(_secrets_of(self._url)))
        except TypeError as error:
            if self._offline:
                raise FetchError(
                    f"{self.place} cannot be read offline: storage_options has a value of type {error}, which the cache cannot compare. "
                    "Load it with strings, bytes, numbers, and lists and maps of them"
                ) from None
        cached = None
        if key:
            cached = self._cache.read(key)
        if not self._offline:
            self._first = self._fetch(0, size)
            if key and cached != self._first:
                self._store(key, self._first)
        elif cached is None:
            raise self._not_cached("it", " and the same storage_options")
        else:
            self._first = cached
        return self._first

    def read(self, at: int, parts: Sequence[tuple[int, bytes, int]]) -> list[bytes]:
        """Return parts that follow each other from `at` on, each given by its size, its SHA-256 and
        the number of the bytes behind it. The caller checks the digests.

        Parts that are not in the cache are one request, with those between them. Each of them is
        followed by the bytes behind it.

        Raises
        ------
        FetchError
            They cannot be read, or the bundle was replaced since `head`; offline, they are not in
            the cache.
        """
        places = []
        found = {}
        for number, (size, digest, padding) in enumerate(parts):
            data = self._cache.read(digest.hex())
            if data is not None and _sha256(data) == digest:
                found[number] = data
            places.append(at)
            at += size + padding

        missing = [number for number in range(len(parts)) if number not in found]
        if len(missing) > 1 and not self._offline:
            start = places[missing[0]]
            last_size, _, last_padding = parts[missing[-1]]
            together = memoryview(
                self._fetch(start, places[missing[-1]] + last_size + last_padding)
            )
            for number in missing:
                size, digest, padding = parts[number]
                part = bytes(together[places[number] - start :][: size + padding])
                if self._store_part(part, size, digest):
                    found[number] = part

        for number, (size, digest, padding) in enumerate(parts):
            if number not in found:
                found[number] = self._fetched(places[number], size, digest, padding)
        return [found[number] for number in range(len(parts))]

    def _fetched(self, start: int, size: int, digest: bytes, padding: int) -> bytes:
        if self._offline:
            raise self._not_cached(f"a part of it ({size} bytes)")
        stop = start + size + padding
        data = self._fetch(start, stop)
        if not self._store_part(data, size, digest):
            # Another bundle has another SHA-256 of its head there.
            if self._fetch(0, HEADER) != self._first[:HEADER]:
                raise FetchError(
                    f"{self.place} was replaced by another file since devmod.load opened it. Load it again"
                )
            data = self._fetch(start, stop)  # a proxy may have damaged the first answer
            self._store_part(data, size, digest)
        return data

    def _store_part(self, data: bytes, size: int, digest: bytes) -> bool:
        """Store a part of a size, unless the bytes behind it are not zero.

        Return False if it has another digest.
        """
        part = memoryview(data)[:size]
        if _sha256(part) != digest:
            return False
        if not any(data[size:]):  # otherwise a second look would find no fault
            self._store(digest.hex(), part)
        return True

    def signature(self) -> bytes | None:
        """Return the content of the file whose URL has ``.sig`` after the path, up to 1 MiB and 1
        byte; None if there is none.

        Raises
        ------
        FetchError
            It cannot be read; offline, it is not in the cache.
        """
        path, query, rest = self._url.partition("?")
        try:
            beside = UrlSource(
                f"{path}.sig{query}{rest}",
                offline=self._offline,
                timeout=self._timeout,
                retries=self._retries,
                storage_options=self._options,
            )
            return beside.head(MAX_SIGNATURE + 1)
        except FetchError as error:
            if error.status in (404, 410) or isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    # -- reading

    def _store(self, key: str, data: bytes | memoryview) -> None:
        if not self._is_local:
            self._cache.write(key, data)

    def _not_cached(self, what: str, condition: str = "") -> FetchError:
        return FetchError(
            f"{self.place} cannot be read offline: {what} is not in the cache. Load it once with offline=False{condition}, and get the "
            "functions that are needed"
        )

    def _fetch(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to `stop`, fewer if the file ends before. A failure that
        may pass is repeated.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                data, size = self._transfer(start, stop)
            except Exception as error:  # noqa: BLE001 - a file system may raise anything
                least: float | None = 0
                if isinstance(error, HttpError):
                    least = error.pause
                if (
                    not isinstance(error, OSError)
                    or isinstance(error, _PERMANENT)
                    or least is None
                    or attempt > self._retries
                ):
                    raise self._error(error, attempt) from self._cause(error)
                pause = min(max(least, _PAUSE * 2 ** (attempt - 1)), self._timeout)
                debug(
                    f"{self.place}: attempt {attempt} failed ({self._redacted(_reason(error))}); the next one follows in {pause:g} s"
                )
                time.sleep(pause)
            else:
                debug(f"{self.place}: {len(data)} bytes at {start}")
                if size >= 0:
                    self.size = size
                return data

    def _transfer(self, start: int, stop: int) -> tuple[bytes, int]:
        """Return the bytes in a range, and the size of the file; -1 if it is unknown."""
        import fsspec  # type: ignore[import-untyped]
        from fsspec.asyn import sync  # type: ignore[import-untyped]

        try:
            # Not `fsspec.url_to_fs`, which follows chains. fsspec keeps one file system for each
            # process.
            cls = fsspec.get_filesystem_class(self._scheme)
            options = {**cls._get_kwargs_from_urls(self._url), **self._options}
            files = cls(**options)
            path = cls._strip_protocol(self._url)
        except (ImportError, ValueError, TypeError) as error:
            # A missing package, an unknown scheme or option.
            if isinstance(error, ImportError):
                text = describe_import(error)
            else:
                text = describe_error(error)
            raise FetchError(f"{self.place} cannot be read: {self._redacted(text)}") from error
        if self._is_local:
            open_regular(path).close()
        if self._scheme in ("http", "https"):
            from fsspec.implementations.http import HTTPFileSystem  # type: ignore[import-untyped]

            if not isinstance(files, HTTPFileSystem):
                raise FetchError(
                    f"{self.place} cannot be read: {cls.__module__}.{cls.__name__} replaced fsspec's file system for {self._scheme}://, "
                    f"and does not check redirects and answers. devmod.load(fsspec.open(url).open()) reads through it"
                )
            result: tuple[bytes, int] = sync(
                files.loop, get_range, files, path, start, stop, self._timeout
            )
            return result
        data = files.cat_file(path, start=start, end=stop)
        if len(data) > stop - start:
            raise ValueError(f"{type(files).__name__} has no ranges")
        return data, -1

    def _error(self, error: Exception, attempts: int) -> FetchError:
        if isinstance(error, FetchError):
            return error
        status = None
        if isinstance(error, HttpError):
            status = error.status
        text = f"{self.place} cannot be read: {self._redacted(_reason(error))}"
        if status in (401, 403) or isinstance(error, PermissionError):
            text += "; `storage_options` takes credentials"
        if attempts > 1:
            text += f" (after {attempts} attempts)"
        result = FetchError(text)
        result.status = status
        return result

    def _cause(self, error: Exception) -> BaseException | None:
        """Return the exception for the traceback below the FetchError; None if one of the chain has
        a secret of the URL in its text.
        """
        cause: BaseException | None = error
        if isinstance(error, (FetchError, HttpError)):
            cause = error.__cause__
        each = cause
        length = 0
        while each is not None and length < 100:
            text = f"{each!s} {each!r}"
            if self._redacted(text) != text:
                return None
            each = each.__cause__ or each.__context__
            length += 1
        return cause

    def _redacted(self, text: str) -> str:
        """Return a text of another package without the secrets of the URL."""
        for secret in _secrets_of(self._url):
            text = text.replace(secret, "…")
        return text


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, (HttpError, FormatError)):
        return str(error)
    own = own_module(error=error)
    if own:
        return f"{describe_error(error)}: {own}"
    return describe_error(error)


def _sha256(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def _unsupported(scheme: str) -> FetchError:
    """Return the error for a scheme that is not one of `_SCHEMES`. A chain such as
    ``zip://k::https://h`` may have secrets.
    """
    first = scheme.partition("::")[0]
    instead = _INSTEAD.get(
        first,
        "devmod.load(fsspec.open(url).open()) reads through fsspec, without checks of redirects and answers",
    )
    return FetchError(
        f"load(url): a URL with {first}:// cannot be read. {instead}. The schemes of bundles are {', '.join(_SCHEMES)}"
    )


def _without_secrets(url: str) -> str:
    """Return a URL without a password, and without a query, which may have a signature."""
    scheme, separator, rest = url.partition("://")
    rest, query, _ = rest.partition("?")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}{query and '?…'}"


def _secrets_of(url: str) -> list[str]:
    """Return the credentials and the query of a URL, the longest first, also as they are without
    escapes.
    """
    rest, _, query = url.partition("://")[2].partition("?")
    user = rest.partition("/")[0].rpartition("@")[0]
    found = [user, user.partition(":")[2], query]
    for each in query.split("&"):
        value = each.partition("=")[2]
        if len(value) > 5:  # a short one is a word of any text
            found.append(value)
    secrets = {*found, *map(unquote, found)}
    return sorted((each for each in secrets if len(each) > 2), key=len, reverse=True)


# -- The key under which the cache has the first bytes of a bundle: its URL, and the account of
# `storage_options`.


def key_of(url: str, options: Mapping[str, Any], *, has_secrets: bool) -> str:
    """Return the key. Another endpoint or account has another one, and it shows no secret.

    Parameters
    ----------
    url, options
        The URL and the options of its file system.
    has_secrets
        Whether the URL has a password or a query.

    Raises
    ------
    TypeError
        An option has a value that other processes cannot recognize; the text is its type.
    """
    if not (options or has_secrets):
        return DiskCache.key("bundle at a URL", url)
    text = f"{url!r} {_text_of(options)}".encode("utf-8", "surrogatepass")
    return DiskCache.key(
        "bundle of an account", hashlib.pbkdf2_hmac("sha256", text, b"devmod-remote", _ITERATIONS)
    )


def _text_of(value: object) -> str:
    """Return a text that is equal for equal options alone. Lists and tuples are equal, and maps in
    any order.
    """
    if isinstance(value, str):
        return str.__repr__(value)  # a subclass may have a repr without the text, such as asterisks
    if isinstance(value, bytes):
        return bytes.__repr__(value)
    if value is None or isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, os.PathLike):
        return _text_of(os.fspath(value))
    if isinstance(value, Mapping):
        items = [f"{_text_of(key)}:{_text_of(each)}" for key, each in value.items()]
        return f"{{{','.join(sorted(items))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_text_of, value))}]"
    if isinstance(value, (set, frozenset)):
        return f"set({','.join(sorted(map(_text_of, value)))})"
    raise TypeError(type(value).__name__)


# -- The packages that fsspec's file systems need, and the commands that install them.


def describe_import(error: ImportError) -> str:
    """Return why a file system of fsspec cannot be imported, with the command that installs a
    missing package if that is known.
    """
    cause = error.__cause__ or error  # fsspec raises its own text from the error of the import
    name = ""
    if isinstance(cause, ModuleNotFoundError):
        name = (cause.name or "").partition(".")[0]
    own = own_module(error=error)
    if own:
        return f"{describe_error(error)}: {own}"
    requirement = _REQUIREMENTS.get(name)
    if requirement:
        return not_installed(f"the package {name}", requirement)
    if cause is error:
        return str(error)
    return f"{error} ({describe_error(cause)})"
