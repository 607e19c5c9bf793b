"""What the tests of this wheel share: keys, signed files and policies."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import each_case
from stored import Raw

import devmod
from devmod.backend import loads_own
from devmod_trust import sign
from devmod_trust._envelope import Envelope, Signature, head_of, make_statement
from devmod_trust._keys import PrivateKey, read_private_key, write_new_key
from devmod_trust._policy import File, check

Change = Callable[[dict[str, Any]], object]


def never(path: str) -> str:
    raise AssertionError(f"{path} is not encrypted")


def key(name: str = "acme") -> PrivateKey:
    """Return the key NAME.pem of the current folder. Both of its files are made if they are
    missing.
    """
    if not Path(f"{name}.pem").exists():
        write_new_key(f"{name}.pem", "")
    return read_private_key(f"{name}.pem", never)


def bundle(*payloads: bytes) -> bytes:
    """Return a file with a module for each payload; without any, one."""
    modules = [
        Raw("toy", payload, functions=(f"f{at}",))
        for at, payload in enumerate(payloads or (b"the payload",))
    ]
    return devmod.dumps(devmod.bundle(*modules) if len(modules) > 1 else modules[0])


def signed(
    path: str, *keys: str, data: bytes | None = None, name: str = "acme/f", version: int = 3
) -> bytes:
    """Write a file and its signatures. Return the content of the second."""
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_bytes(bundle() if data is None else data)
    Path(f"{path}.sig").unlink(missing_ok=True)
    names = keys or ("acme",)
    for each in names:
        key(each)
    sign(path, *(f"{each}.pem" for each in names), name=name, version=version)
    return Path(f"{path}.sig").read_bytes()


def envelope(
    data: bytes, *signatures: tuple[str, bytes | PrivateKey, dict[str, Any]], change: Change = len
) -> bytes:
    """Return an envelope for a file, with any signatures: each has a keyid, the bytes or the key
    that makes them, and other fields.
    """
    payload = json.loads(make_statement(loads_own(data), data, "acme/f", 3)) if data else {}
    change(payload)
    made = Envelope(json.dumps(payload).encode(), ())
    found = [
        Signature(keyid, sig if isinstance(sig, bytes) else sig.sign(made.message), extra)
        for keyid, sig, extra in signatures
    ]
    return made._replace(signatures=tuple(found)).to_bytes()


def rule(
    source: str = '["k/*.devmod"]', name: str = "acme/f", keys: str = '["acme.pub"]', more: str = ""
) -> str:
    return f'[[rule]]\nsource = {source}\nname = "{name}"\nkeys = {keys}\n{more}\n'


def policy(*rules: str, path: str = "trust.toml") -> str:
    """Write a policy. Return its path."""
    key()
    Path(path).write_text("\n".join(rules or (rule(),)))
    return str(Path(path).resolve())


def ask(
    place: str,
    signature: bytes | None,
    data: bytes | None = None,
    package: str = "",
    path: str = "trust.toml",
) -> list[tuple[str, ...]]:
    """Ask a policy as core does. Return the keys that have signed, for each rule that takes the
    file.
    """
    data = bundle() if data is None else data
    head = data and head_of(data)
    return [each.keys for each in check(File(place, package, head, len(data), signature), (path,))]


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """Let no file have more bytes, as if the disk was full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


refusal = partial(each_case.refusal, devmod.TrustError)
