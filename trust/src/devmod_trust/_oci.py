"""Files and their signatures in registries of containers: `devmod push` and `devmod pull`, through oras.

oras does not compare what it gets with the digests of a manifest. This does, and believes no size.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import Any, BinaryIO, NamedTuple

from devmod.backend import MAX_SIGNATURE, replacing, temporary_folder
from devmod.errors import ArgumentError, DevmodError, FetchError, describe_error, pip_install
from devmod_trust._sign import read_bundle

_ADDRESS = re.compile(
    r"oci://([A-Za-z0-9.-]+(?::\d{1,5})?)/([a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})|@(sha256:[0-9a-f]{64}))?"
)
#: The types of the artifact, of its file and of its signatures.
_ARTIFACT, _FILE, _SIGNATURES = (f"application/vnd.devmod.{each}" for each in ("bundle", "file.v1", "signatures.v1"))
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_MAX_MANIFEST = 1 << 20
#: For a connection, and for the next bytes, in seconds.
_TIMEOUT = 30


class _Place(NamedTuple):
    """The client of a registry, an artifact for oras, the address of its repository, the name of its file, and its digest or ""."""

    registry: Any
    container: Any
    repository: str
    name: str
    digest: str


def push(path: str, address: str, insecure: bool) -> str:
    """Upload a file, and the signatures beside it, as one artifact. Return its address by its digest.

    Raises
    ------
    ArgumentError
        The address is invalid.
    FormatError
        The file is no bundle, or is damaged.
    FetchError
        oras is not installed, or the registry cannot be reached or refuses the upload.
    """
    signature = read_bundle(path)[2]
    with _place(address, insecure) as place, temporary_folder() as folder:
        from oras.oci import ManifestConfig, NewLayer

        empty = os.path.join(folder, "empty.json")
        with open(empty, "w", encoding="utf-8") as file:
            file.write("{}")
        config = ManifestConfig(empty, "application/vnd.oci.empty.v1+json")[0]
        _check(place.registry.upload_blob(empty, place.container, config))
        layers = []
        for each, kind in ((path, _FILE), (f"{path}.sig", _SIGNATURES))[: 1 if signature is None else 2]:
            # The name is that of the repository: equal files have equal digests, whatever they are called here.
            title = place.name + (".sig" if kind == _SIGNATURES else "")
            layers.append(NewLayer(each, media_type=kind) | {"annotations": {"org.opencontainers.image.title": title}})
            _check(place.registry.upload_blob(each, place.container, layers[-1]))
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "artifactType": _ARTIFACT, "config": config, "layers": layers}
        response = _check(place.registry.upload_manifest(manifest, place.container))
        return f"{place.repository}@sha256:{sha256(response.request.body).hexdigest()}"


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
    with _place(address, insecure) as place:
        registry = place.registry
        url = f"{registry.prefix}://{place.container.manifest_url()}"
        response = _check(registry.do_request(url, "GET", headers={"Accept": _MANIFEST}, stream=True))
        manifest = b"".join(_chunks(response, _MAX_MANIFEST, address))
        if place.digest and f"sha256:{sha256(manifest).hexdigest()}" != place.digest:
            raise FetchError(f"{address} cannot be pulled: its manifest has another SHA-256 than the address")
        layers = _layers(manifest, address)
        path = output or place.name
        with ExitStack() as files:  # both are complete before one is replaced
            for kind, suffix in ((_SIGNATURES, ".sig"), (_FILE, "")):
                if kind in layers:
                    _download(place, *layers[kind], address, files.enter_context(replacing(path + suffix)))
        if _SIGNATURES not in layers:
            with suppress(FileNotFoundError):
                os.unlink(f"{path}.sig")
        return path, _SIGNATURES in layers


def _download(place: _Place, digest: str, size: int, address: str, file: BinaryIO) -> None:
    """Write a blob to a file. Raise FetchError if its digest or its size differs."""
    hashed = sha256()
    for chunk in _chunks(_check(place.registry.get_blob(place.container, digest, stream=True)), size, address):
        hashed.update(chunk)
        file.write(chunk)
    if f"sha256:{hashed.hexdigest()}" != digest:
        raise FetchError(f"{address} cannot be pulled: the registry sent other bytes than those with the digest {digest}")


def _layers(manifest: bytes, address: str) -> dict[str, tuple[str, int]]:
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
        raise FetchError(f"{address} cannot be pulled: it is no artifact that devmod push wrote")
    return result


def _chunks(response: Any, most: int, address: str) -> Iterator[bytes]:
    """Yield the bytes of an answer, at most so many."""
    try:
        for chunk in response.iter_content(1 << 16):
            most -= len(chunk)
            if most < 0:
                raise FetchError(f"{address} cannot be pulled: the registry sent more bytes than it announced")
            yield chunk
    except OSError as error:  # of the network, not of the file that is written
        if isinstance(error, DevmodError):
            raise
        raise FetchError(f"{address} cannot be pulled: {describe_error(error)}") from None
    finally:
        response.close()


@contextmanager
def _place(address: str, insecure: bool) -> Iterator[_Place]:
    """Parse an address, and turn the errors of oras and of the network within the block into FetchError."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ArgumentError(f"{address!r} is no address of a registry; expected oci://HOST/REPOSITORY:TAG", argument="address")
    host, repository, tag, digest = found.groups("")
    try:
        from oras.container import Container
        from oras.provider import Registry
    except ImportError:
        raise FetchError(f"{address} needs oras, which is not installed: {pip_install('devmod-trust[oci]')}") from None
    registry = Registry(insecure=insecure or host.partition(":")[0] in ("localhost", "127.0.0.1"))
    # oras repeats each request that fails for two minutes, and waits for an answer for ever.
    registry.do_request = partial(Registry.do_request.__wrapped__, registry)
    registry.session.request = partial(registry.session.request, timeout=_TIMEOUT)
    container = Container(f"{host}/{repository}{f'@{digest}' if digest else f':{tag}' if tag else ''}")
    try:
        registry.auth.load_configs(container)
        yield _Place(registry, container, f"oci://{host}/{repository}", f"{repository.rpartition('/')[2]}.devmod", digest)
    except (DevmodError, OSError) as error:
        if isinstance(error, DevmodError) or error.filename is not None:  # of a file here
            raise
        raise FetchError(f"{address}: {describe_error(error)}") from None
    except Exception as error:  # noqa: BLE001 - oras raises ValueError and its own
        raise FetchError(f"{address}: {describe_error(error)}") from None
    finally:
        registry.session.close()


def _check(response: Any) -> Any:
    """Return an answer. Raise ValueError if it is an error."""
    if response.status_code not in (200, 201, 202):
        response.close()
        raise ValueError(f"the registry answered {response.status_code} {response.reason}")
    return response
