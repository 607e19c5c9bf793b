"""Files and their signatures in registries of containers: `devmod push` and `devmod pull`.

oras logs in. Its other functions take a host without a dot for a name at Docker Hub, and do not compare what they get with its digest.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import Any, BinaryIO
from urllib.parse import urljoin

from devmod.backend import MAX_SIGNATURE, replacing
from devmod.errors import ArgumentError, DevmodError, FetchError, FormatError, describe_error, pip_install
from devmod_trust._sign import read_bundle

_PART = "[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_ADDRESS = re.compile(
    rf"oci://([A-Za-z0-9.-]+(?::\d{{1,5}})?)/({_PART}(?:/{_PART})*)(?::([A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})|@(sha256:[0-9a-f]{{64}}))?"
)
#: The types of the artifact, of its file and of its signatures.
_ARTIFACT, _FILE, _SIGNATURES = (f"application/vnd.devmod.{each}" for each in ("bundle", "file.v1", "signatures.v1"))
_MANIFEST, _EMPTY = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.empty.v1+json"
_MAX_MANIFEST = 1 << 20
#: For a connection, and for the next bytes, in seconds.
_TIMEOUT = 30


def push(path: str, address: str, insecure: bool) -> str:
    """Upload a file, and the signatures beside it, as one artifact. Return its address by its digest.

    Raises
    ------
    ArgumentError
        The address is invalid.
    FormatError
        The file is no bundle or is damaged, or the file of signatures is too large.
    FetchError
        oras is not installed, or the registry cannot be reached or refuses the upload.
    """
    _, data, signature = read_bundle(path)
    if signature and len(signature) > MAX_SIGNATURE:
        raise FormatError(f"'{path}.sig' has more than {MAX_SIGNATURE} bytes")
    with _repository(address, insecure) as repository:
        # The titles are of the repository: equal files have equal digests, whatever they are called here.
        layers = [repository.upload(data, _FILE, repository.name)]
        if signature is not None:
            layers.append(repository.upload(signature, _SIGNATURES, f"{repository.name}.sig"))
        config = repository.upload(b"{}", _EMPTY)
        fields = {"schemaVersion": 2, "mediaType": _MANIFEST, "artifactType": _ARTIFACT, "config": config, "layers": layers}
        manifest = json.dumps(fields).encode()
        repository.request("PUT", repository.manifest, data=manifest, headers={"Content-Type": _MANIFEST})
        return f"{repository.address}@{_digest(manifest)}"


def pull(address: str, output: str, insecure: bool) -> tuple[str, bool]:
    """Download a file and its signatures. Return the file's path, and whether there are signatures.

    Each blob is compared with its digest in the manifest, and the manifest with the one in the address, before a file is replaced. An old
    file of signatures is removed if the artifact has none.

    Parameters
    ----------
    address
        The artifact, by tag or digest.
    output
        The path. "": the last name of the repository, with the suffix .devmod.

    Raises
    ------
    ArgumentError
        The address is invalid.
    FetchError
        oras is not installed, the registry cannot be reached or has no such artifact of devmod, or a digest differs.
    OSError
        A file cannot be written.
    """
    with _repository(address, insecure) as repository:
        manifest = b"".join(repository.get(repository.manifest, _MAX_MANIFEST))
        if repository.digest not in ("", _digest(manifest)):
            raise FetchError("its manifest has another SHA-256 than the address")
        layers = _layers(manifest)
        path = output or repository.name
        with ExitStack() as files:  # both are complete before one is replaced
            for kind, suffix in ((_SIGNATURES, ".sig"), (_FILE, "")):
                if kind in layers:
                    repository.download(*layers[kind], files.enter_context(replacing(path + suffix)))
        if _SIGNATURES not in layers:
            with suppress(FileNotFoundError):
                os.unlink(f"{path}.sig")
        return path, _SIGNATURES in layers


def _layers(manifest: bytes) -> dict[str, tuple[str, int]]:
    """Return the digest and the size of the file, and those of the signatures, by their types."""
    result: dict[str, tuple[str, int]] = {}
    try:
        for layer in json.loads(manifest)["layers"]:
            kind, digest, size = layer["mediaType"], layer["digest"], layer["size"]
            if kind in (_FILE, _SIGNATURES) and kind not in result and re.fullmatch(r"sha256:[0-9a-f]{64}", digest) and type(size) is int:
                result[kind] = digest, min(size, MAX_SIGNATURE) if kind == _SIGNATURES else size
    except (ValueError, TypeError, KeyError, RecursionError):
        result = {}
    if _FILE not in result:
        raise FetchError("it is no artifact that devmod push wrote")
    return result


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


class _Repository:
    """A repository of a registry: its address, the name of its file, the URL of a manifest, and the digest in the address, or ""."""

    def __init__(self, registry: Any, host: str, path: str, tag: str, digest: str) -> None:
        self._registry, self._path, self._url = registry, path, f"{registry.prefix}://{host}/v2/{path}/"
        self.address, self.name, self.digest = f"oci://{host}/{path}", f"{path.rpartition('/')[2]}.devmod", digest
        self.manifest = f"manifests/{digest or tag or 'latest'}"

    def request(self, method: str, url: str, **options: Any) -> Any:
        """Return the answer to a request. `url` may be relative. Raise FetchError if the answer is an error."""
        # oras repeats each request that fails for two minutes.
        send = partial(type(self._registry).do_request.__wrapped__, self._registry, urljoin(self._url, url), method, **options)
        response = send()
        if response.status_code == 401:  # its token has expired
            response.close()
            self._registry.auth.token = None
            response = send()
        if response.status_code not in (200, 201, 202):
            response.close()
            raise FetchError(f"the registry answered {response.status_code} {response.reason}")
        return response

    def upload(self, data: bytes, kind: str, title: str = "") -> dict[str, object]:
        """Upload a blob, unless the registry has it. Return what a manifest has of it."""
        digest = _digest(data)
        answer = self.request("POST", f"blobs/uploads/?mount={digest}&from={self._path}")
        if answer.status_code != 201:  # it has none to mount
            session = urljoin(self._url, answer.headers["Location"])
            url = f"{session}{'&' if '?' in session else '?'}digest={digest}"
            self.request("PUT", url, data=data, headers={"Content-Type": "application/octet-stream"})
        annotations = {"annotations": {"org.opencontainers.image.title": title}} if title else {}
        return {"mediaType": kind, "digest": digest, "size": len(data), **annotations}

    def get(self, url: str, most: int) -> Iterator[bytes]:
        """Yield the bytes of an answer. Raise FetchError if there are more than `most`."""
        headers = {"Accept": f"{_MANIFEST}, */*", "Accept-Encoding": "identity"}
        with self.request("GET", url, headers=headers, stream=True) as response:
            for chunk in response.raw.stream(1 << 16, decode_content=False):
                most -= len(chunk)
                if most < 0:
                    raise FetchError("the registry sent more bytes than it announced")
                yield chunk

    def download(self, digest: str, size: int, file: BinaryIO) -> None:
        """Write a blob to a file. Raise FetchError if its digest or its size differs."""
        hashed = sha256()
        for chunk in self.get(f"blobs/{digest}", size):
            hashed.update(chunk)
            file.write(chunk)
        file.flush()  # a full disk is an error here
        if f"sha256:{hashed.hexdigest()}" != digest:
            raise FetchError(f"the registry sent other bytes than those with the digest {digest}")


@contextmanager
def _repository(address: str, insecure: bool) -> Iterator[_Repository]:
    """Parse an address, and turn the errors of oras and of the network within the block into FetchError."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ArgumentError(f"{address!r} is no address of a registry; expected oci://HOST/REPOSITORY:TAG", argument="address")
    host, path, tag, digest = found.groups("")
    try:
        from oras.auth import get_auth_backend
        from oras.container import Container
        from oras.provider import Registry
    except ImportError:
        raise FetchError(f"{address} needs oras, which is not installed: {pip_install('devmod-trust[oci]')}") from None
    registry = Registry(insecure=insecure or host.partition(":")[0] in ("localhost", "127.0.0.1"))
    registry.session.request = partial(registry.session.request, timeout=_TIMEOUT)
    container = Container(path)
    container.registry = host
    try:
        registry.auth.load_configs(container)
        if registry.session.get(f"{registry.prefix}://{host}/v2/").headers.get("Www-Authenticate", "").lower().startswith("basic "):
            registry.auth = get_auth_backend("basic", registry.session)
            registry.auth.load_configs(container)
            if not hasattr(registry.auth, "_basic_auth"):
                raise ValueError("no password")  # as oras does, which cannot authenticate a request then
        yield _Repository(registry, host, path, tag, digest)
    except Exception as error:  # oras raises ValueError and its own, and the network OSError
        text = str(error) if isinstance(error, FetchError) else describe_error(error)
        if (isinstance(error, DevmodError) and not isinstance(error, FetchError)) or getattr(error, "filename", None) is not None:
            raise  # of a file here
        if type(error) is ValueError:
            text = f"the registry asks for a password that is not known: docker login {host}"
        raise FetchError(f"{address}: {text}") from None
    finally:
        registry.session.close()
