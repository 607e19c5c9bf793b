"""Signatures of ``.devmod`` files and the policies that say which files may be used. docs/design/trust.md has the reasons."""

from __future__ import annotations

import os

from pluggy import HookimplMarker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from devmod_trust._keys import PrivateKey

__all__ = ["read_key", "sign"]


@HookimplMarker("devmod")
def devmod_verify(place: str, package: str, head: bytes, signature: bytes | None, policies: tuple[str, ...]) -> None:
    """Raise TrustError unless each policy takes the file: the hook of core, which asks it about each file that is opened."""
    if policies:  # without one, core asks before a first use, and nothing is imported
        from devmod_trust._policy import File, check

        check(File(place, package, head, signature), policies)


def read_key(path: str | os.PathLike[str], passphrase: Callable[[], str] | None = None) -> PrivateKey:
    """Read a private key for `sign`: Ed25519, or ECDSA with P-256, in PEM or in the form of OpenSSH.

    Parameters
    ----------
    path
        The file.
    passphrase
        Called if the key is encrypted. None: such a key is an error.

    Raises
    ------
    FormatError
        The file has no such key, or the passphrase is wrong or missing.
    OSError
        The file cannot be read.
    """
    from devmod.backend import file_name
    from devmod.errors import FormatError
    from devmod_trust._keys import read_private_key

    name = file_name(path)

    def refuse() -> str:
        raise FormatError(f"read_key: {name!r} is encrypted; expected is the parameter passphrase, which returns what decrypts it")

    return read_private_key(name, passphrase or refuse)


def sign(path: str | os.PathLike[str], *keys: PrivateKey, name: str, version: int, replace: bool = False) -> str:
    """Sign a file. Its signatures are in a file beside it, whose name ends with ``.sig``.

    Parameters
    ----------
    path
        The ``.devmod`` file. Each of its payloads is compared with its digest first.
    keys
        The keys, from `read_key`. A signature is added to those of other keys, if these are of the same file, name and version.
    name
        What policies compare, such as "acme/softmax".
    version
        A number that grows, so that a policy can refuse old files.
    replace
        Whether to drop the signatures that are of another file, name or version.

    Returns
    -------
    str
        The path of the file with the signatures.

    Raises
    ------
    FormatError
        The file is no bundle or is damaged, or the file with the signatures is invalid or has those of another file, name or version.
    ArgumentError
        `name` or `version` is invalid, or there is no key.
    OSError
        A file cannot be read or written.
    """
    from devmod.backend import file_name
    from devmod_trust._sign import sign_file

    return sign_file(file_name(path), keys, name, version, replace)
