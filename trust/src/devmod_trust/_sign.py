"""Sign a file, and read what is signed of one."""

from __future__ import annotations

from typing import NamedTuple

import devmod
from devmod.backend import loads_own, open_regular, replacing, walk
from devmod.errors import ArgumentError, FormatError
from devmod_trust._envelope import (
    MAX_SIGNATURES,
    MAX_SIZE,
    MAX_VERSION,
    Envelope,
    Signature,
    differences,
    head_of,
    make_statement,
    name_problem,
    read_envelope,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod_trust._keys import PrivateKey


class Bundle(NamedTuple):
    """A file that was read as a whole: its modules, its header and index, and the content of the file with signatures beside it."""

    module: devmod.Module
    head: bytes
    signature: bytes | None


def signature_path(path: str) -> str:
    """Return the path of the file with the signatures of a file."""
    return f"{path}.sig"


def read_bundle(path: str) -> Bundle:
    """Read a file, and compare each payload with its digest. No policy is asked.

    Raises
    ------
    FormatError
        It is no bundle, or is damaged.
    OSError
        It cannot be read.
    """
    with open_regular(path) as file:
        data = file.read()
    try:
        module = loads_own(data)
        for each in walk(module):
            if hasattr(each, "verify"):
                each.verify()
    except FormatError as error:
        raise FormatError(str(error).replace("the bundle in memory", repr(path))) from None
    try:
        with open_regular(signature_path(path)) as file:
            return Bundle(module, head_of(data), file.read(MAX_SIZE + 1))
    except FileNotFoundError:
        return Bundle(module, head_of(data), None)


def sign_file(path: str, keys: Sequence[PrivateKey], name: str, version: int, replace: bool) -> str:
    """Do what `devmod_trust.sign` describes."""
    if problem := name_problem(name):
        raise ArgumentError(f"sign: name: {problem}", argument="name")
    if type(version) is not int or not 0 <= version <= MAX_VERSION:
        raise ArgumentError(f"sign: version: expected a number from 0 to {MAX_VERSION}, got {version!r}", argument="version")
    if not keys:
        raise ArgumentError("sign: expected a key, from read_key", argument="keys")
    module, head, old = read_bundle(path)
    envelope = Envelope(make_statement(module, head, name, version), ())
    signatures = {key.public.keyid: Signature(key.public.keyid, key.sign(envelope.message)) for key in keys}
    others = _others(path, old, envelope.payload, replace)
    envelope = envelope._replace(signatures=(*(each for each in others if each.keyid not in signatures), *signatures.values()))
    data = envelope.to_bytes()
    if len(envelope.signatures) > MAX_SIGNATURES or len(data) > MAX_SIZE:
        raise FormatError(f"{signature_path(path)!r} would have more than {MAX_SIGNATURES} signatures, or more than {MAX_SIZE} bytes")
    with replacing(signature_path(path)) as file:
        file.write(data)
    return signature_path(path)


def _others(path: str, old: bytes | None, payload: bytes, replace: bool) -> tuple[Signature, ...]:
    """Return the signatures that stay."""
    if old is None:
        return ()
    try:
        found = read_envelope(old)
        problem = "" if found.payload == payload else f"is of another statement: {differences(found.payload, payload)}"
    except ValueError as error:
        problem = f"is invalid: {error}"
    if not problem:
        return found.signatures
    if replace:
        return ()
    raise FormatError(f"{signature_path(path)!r} {problem}. To drop what it has: devmod sign --replace, or sign(…, replace=True)")
