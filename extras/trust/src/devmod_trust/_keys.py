"""Keys: Ed25519, and ECDSA with P-256 and SHA-256, in files of the forms PEM and OpenSSH.

The key says by which algorithm a signature is checked, never what comes with the signature.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from hashlib import sha256

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from devmod.backend import open_regular
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod_trust._envelope import Envelope

#: The largest file of a key.
MAX_KEY = 1 << 16
_REMEDY = "`devmod keygen` makes one, and so does ssh-keygen -t ed25519"


# Where to change: the signature algorithms that are accepted
#   here: `PublicKey`; `keygen` makes a key
#   also: `docs/trust.md`
#   tests: `extras/trust/tests/test_keys.py`
class PublicKey:
    """A key that checks signatures.

    Attributes
    ----------
    data : bytes
        The key itself: SubjectPublicKeyInfo in DER. Two files of one key have equal ones.
    keyid : str
        The SHA-256 of `data` in hexadecimal. In an envelope it is a hint.
    """

    def __init__(self, key: Any, path: str) -> None:
        if not isinstance(key, Ed25519PublicKey) and not (
            isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)
        ):
            raise FormatError(
                f"the key in {path!r} is no Ed25519 key, and no ECDSA key of the curve P-256: {_REMEDY}"
            )
        self._verify: Callable[..., None] = key.verify
        self.algorithm: tuple[ECDSA, ...] = ()
        if not isinstance(key, Ed25519PublicKey):
            self.algorithm = (ECDSA(SHA256()),)
        self.data = key.public_bytes(forms.Encoding.DER, forms.PublicFormat.SubjectPublicKeyInfo)
        self.keyid = sha256(self.data).hexdigest()

    def has_signed(self, envelope: Envelope) -> bool:
        """Return whether one of the signatures is by this key. Those with its keyid are tried
        first.
        """
        message = envelope.message
        ordered = sorted(envelope.signatures, key=lambda each: each.keyid != self.keyid)
        return any(self._has_made(each.sig, message) for each in ordered)

    def _has_made(self, signature: bytes, message: bytes) -> bool:
        try:
            self._verify(signature, message, *self.algorithm)
        except InvalidSignature:
            return False
        return True


class PrivateKey:
    """A key that signs. `public` is its public key."""

    def __init__(self, key: Any, path: str) -> None:
        self.public = PublicKey(key.public_key(), path)
        self._sign: Callable[..., bytes] = key.sign

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return self._sign(message, *self.public.algorithm)


def read_public_key(path: str) -> PublicKey:
    """Read a public key: SubjectPublicKeyInfo in PEM, or OpenSSH's line.

    Raises
    ------
    FormatError
        The file has none, or one of another algorithm.
    OSError
        The file cannot be read.
    """
    data = _read(path)
    if b"PRIVATE KEY-----" in data:
        raise FormatError(
            f"{path!r} is a private key, which belongs to its owner alone: name the file with its public key"
        )
    try:
        key: object
        if data.lstrip().startswith(b"-----BEGIN"):
            key = forms.load_pem_public_key(data)
        else:
            key = forms.load_ssh_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise FormatError(
            f"{path!r} has no public key in PEM (BEGIN PUBLIC KEY) or in the form of OpenSSH: {_REMEDY}"
        ) from None
    return PublicKey(key, path)


def read_private_key(path: str, ask: Callable[[str], str]) -> PrivateKey:
    """Read a private key, in PEM or in the form of OpenSSH. If it is encrypted, `ask` returns the
    passphrase of the file.

    Raises
    ------
    FormatError
        The file has none, or one of another algorithm; the passphrase is wrong; or it is encrypted
        by OpenSSH, and bcrypt is missing.
    OSError
        The file cannot be read.
    """
    data = _read(path)
    key = _decode(data, path, None)
    if key is None:
        key = _decode(data, path, ask(path).encode())
    return PrivateKey(key, path)


def _decode(data: bytes, path: str, passphrase: bytes | None) -> object:
    """Return a private key; None if it is encrypted, and there is no passphrase."""
    try:
        if b"BEGIN OPENSSH PRIVATE KEY" in data:
            return forms.load_ssh_private_key(data, passphrase)
        return forms.load_pem_private_key(data, passphrase)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        text = str(error)
    # It was a TypeError or a ValueError, by the version of cryptography.
    if passphrase is None and "password" in text.lower():
        return None
    if "bcrypt" in text:
        raise FormatError(
            f"{path!r} is encrypted by OpenSSH, which only bcrypt can read: pip install bcrypt"
        )
    if passphrase is None:
        raise FormatError(
            f"{path!r} has no private key in PEM (BEGIN PRIVATE KEY) or in the form of OpenSSH: {_REMEDY}"
        )
    raise FormatError(
        f"{path!r} cannot be decrypted: the passphrase is wrong, or the file is damaged"
    )


def write_new_key(path: str, passphrase: str) -> str:
    """Make an Ed25519 key. Write it to a new file that its owner alone can read, and its public key
    beside it. Return the second path.

    Parameters
    ----------
    path
        The file of the private key. That of the public key has ``.pub`` in the place of ``.pem`` or
        after another name.
    passphrase
        What encrypts it; "": nothing.

    Raises
    ------
    FileExistsError
        One of both files exists.
    OSError
        One of them cannot be written. Neither is left.
    """
    key = Ed25519PrivateKey.generate()
    encryption: forms.KeySerializationEncryption = forms.NoEncryption()
    if passphrase:
        encryption = forms.BestAvailableEncryption(passphrase.encode())
    pem = forms.Encoding.PEM
    private_data = key.private_bytes(pem, forms.PrivateFormat.PKCS8, encryption)
    public_data = key.public_key().public_bytes(pem, forms.PublicFormat.SubjectPublicKeyInfo)
    public = f"{path.removesuffix('.pem')}.pub"
    with ExitStack() as written:
        for name, mode, data in ((public, 0o644, public_data), (path, 0o600, private_data)):
            with open(name, "xb", opener=partial(os.open, mode=mode)) as file:
                written.callback(os.unlink, name)
                file.write(data)
        written.pop_all()
    return public


def _read(path: str) -> bytes:
    with open_regular(path) as file:
        return file.read(MAX_KEY)
