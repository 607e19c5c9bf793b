"""Signatures of ``.devmod`` files and the policies that say which files may be used.
docs/design/trust.md has the reasons.
"""

from __future__ import annotations

import os

from pluggy import HookimplMarker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["sign"]


@HookimplMarker("devmod")
def devmod_verify(
    place: str,
    package: str,
    head: bytes,
    size: int,
    signature: bytes | None,
    policies: tuple[str, ...],
) -> None:
    """Raise TrustError unless each policy takes the file: the hook of core, which asks it about
    each file that is opened.
    """
    if policies:  # without one, core asks before a first use, and nothing is imported
        from devmod_trust._policy import File, check

        check(File(place, package, head, size, signature), policies)


def sign(
    path: str | os.PathLike[str],
    *keys: str | os.PathLike[str],
    name: str,
    version: int,
    passphrase: Callable[[str], str] | None = None,
    replace: bool = False,
) -> str:
    """Sign a file. Its signatures are in a file beside it, whose name ends with ``.sig``.

    Parameters
    ----------
    path
        The ``.devmod`` file. Each of its payloads is compared with its digest first.
    keys
        The files of private keys: Ed25519, or ECDSA with P-256, in PEM or in the form of OpenSSH.
        Their signatures are added to those of other keys, if these are of the same file, name and
        version.
    name
        What policies compare, such as "acme/softmax".
    version
        A number that grows, so that a policy can refuse old files.
    passphrase
        Called with the path of a key that is encrypted. None: such a key is an error.
    replace
        Whether to drop the signatures that are of another file, name or version.

    Returns
    -------
    str
        The path of the file with the signatures.

    Raises
    ------
    FormatError
        The file is no bundle or is damaged, a key is invalid, or the file with the signatures is
        invalid or has those of another file, name or version.
    ArgumentError
        `name` or `version` is invalid, there is no key, or a key is encrypted and there is no
        `passphrase`.
    OSError
        A file cannot be read or written.
    """
    from devmod.backend import file_name
    from devmod_trust._sign import sign_file

    return sign_file(
        file_name(path), [file_name(key) for key in keys], name, version, passphrase, replace
    )
