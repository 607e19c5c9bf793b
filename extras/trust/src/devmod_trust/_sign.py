"""Sign a file, and read a file with its signatures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import devmod
from devmod.backend import (
    MAX_SIGNATURE,
    loads_own,
    open_regular,
    read_signature,
    replacing,
    verify_rest,
    walk,
)
from devmod.errors import ArgumentError, FormatError
from devmod_trust import _envelope
from devmod_trust._envelope import MAX_SIGNATURES, MAX_VERSION, Envelope, Signature

if sys.platform != "win32":
    import fcntl


def read_bundle(path: str) -> tuple[devmod.Module, bytes, bytes | None]:
    """Return the modules of a file, its content, and the content of the file with signatures beside
    it (None: there is none).

    All parts are compared with their digests, and the bytes between two parts with zero. No policy
    is asked.

    Raises
    ------
    FormatError
        It is no bundle, or is damaged.
    OSError
        It cannot be read.
    """
    with open_regular(path) as file:
        data = file.read()
    module = loads_own(data, repr(path))
    for each in walk(module):
        if hasattr(each, "verify"):
            each.verify()
        sources = getattr(each, "sources", None)
        if sources is not None:
            sources.data()
    verify_rest(module)
    return module, data, read_signature(lambda: open_regular(f"{path}.sig"))


def sign_file(
    path: str,
    keys: Sequence[str],
    name: str,
    version: int,
    passphrase: Callable[[str], str] | None = None,
    replace: bool = False,
    sigstore: str | None = None,
) -> str:
    """Do what `devmod_trust.sign` describes.

    Sign with sigstore too if `sigstore` is the path of its configuration, "" for the public one.
    """
    from devmod_trust._keys import read_private_key

    def refuse(key: str) -> str:
        raise ArgumentError(
            f"sign: {key!r} is encrypted; expected is passphrase, which returns what decrypts it",
            argument="passphrase",
        )

    if not keys and sigstore is None:
        raise ArgumentError("sign: expected the path of a private key", argument="keys")
    if problem := _envelope.name_problem(name):
        raise ArgumentError(f"sign: name: {problem}", argument="name")
    if type(version) is not int or not 0 <= version <= MAX_VERSION:
        raise ArgumentError(
            f"sign: version: expected a number from 0 to {MAX_VERSION}, got {version!r}",
            argument="version",
        )
    privates = [read_private_key(key, passphrase or refuse) for key in keys]
    # Nobody has named the second file: a link there, which another one may have put there, is an
    # error.
    signatures = os.path.join(
        os.path.realpath(os.path.dirname(path)), f"{os.path.basename(path)}.sig"
    )
    with _locked(path), replacing(signatures, within=os.path.dirname(signatures)) as file:
        module, data, beside = read_bundle(path)
        envelope = Envelope(_envelope.make_statement(module, data, name, version), ())
        others = _others(beside, envelope.payload, path, replace)
        made = {}
        for each in privates:
            keyid = each.public.keyid
            made[keyid] = Signature(keyid, each.sign(envelope.message))
        if sigstore is not None:
            from devmod_trust import _sigstore

            signature = _sigstore.sign(envelope, sigstore)
            made[signature.keyid] = signature
        kept = [each for each in others if each.keyid not in made]
        envelope = envelope._replace(signatures=(*kept, *made.values()))
        content = envelope.to_bytes()
        if len(envelope.signatures) > MAX_SIGNATURES or len(content) > MAX_SIGNATURE:
            raise FormatError(
                f"'{path}.sig' would have more than {MAX_SIGNATURES} signatures, or more than {MAX_SIGNATURE} bytes"
            )
        file.write(content)
    return f"{path}.sig"


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Let one process at a time sign a file. Two at once would each write their own signatures
    beside the ones that they have read.
    """
    with open_regular(path) as file:
        if sys.platform != "win32":
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _others(
    beside: bytes | None, payload: bytes, path: str, replace: bool
) -> tuple[Signature, ...]:
    """Return the signatures that are beside a file, if they are of the same statement. `replace`
    drops others.
    """
    if beside is None:
        return ()
    try:
        found = _envelope.read_envelope(beside)
        if found.payload == payload:
            return found.signatures
        problem = f"is of another statement: {_envelope.differences(found.payload, payload)}"
    except ValueError as error:
        problem = f"is invalid: {error}"
    if replace:
        return ()
    raise FormatError(
        f"'{path}.sig' {problem}. To drop what it has: devmod sign --replace, or sign(…, replace=True)"
    )
