"""Keys: Ed25519, and ECDSA with P-256 and SHA-256, in files of the forms PEM and OpenSSH.

The key says by which algorithm a signature is checked, never what comes with the signature.
"""

from __future__ import annotations

import os
from hashlib import sha256

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from devmod.backend import open_regular
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from devmod_trust._envelope import Envelope

#: The largest file of a key.
MAX_KEY = 1 << 16
_REMEDY = "`devmod keygen` makes one, and so does ssh-keygen -t ed25519"


class PublicKey:
    """A key that checks signatures.

    Attributes
    ----------
    data : bytes
        The key itself: SubjectPublicKeyInfo in DER. Two files of one key have equal ones.
    keyid : str
        The SHA-256 of `data` in hexadecimal. In an envelope it is a hint.
    """

    def __init__(self, key: object, path: str) -> None:
        if not isinstance(key, Ed25519PublicKey) and not (isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)):
            raise FormatError(f"the key in {path!r} is no Ed25519 key, and no ECDSA key of the curve P-256: {_REMEDY}")
        self._key = key
        self.data = key.public_bytes(forms.Encoding.DER, forms.PublicFormat.SubjectPublicKeyInfo)
        self.keyid = sha256(self.data).hexdigest()

    def has_signed(self, envelope: Envelope) -> bool:
        """Return whether one of the signatures is by this key. Those with its keyid are tried first."""
        message = envelope.message
        return any(self.verify(each.sig, message) for each in sorted(envelope.signatures, key=lambda each: each.keyid != self.keyid))

    def verify(self, signature: bytes, message: bytes) -> bool:
        """Return whether a signature of a message is by this key."""
        try:
            if isinstance(self._key, Ed25519PublicKey):
                self._key.verify(signature, message)
            else:
                self._key.verify(signature, message, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


class PrivateKey:
    """A key that signs. `public` is its public key."""

    def __init__(self, key: object, path: str) -> None:
        self.public = PublicKey(key.public_key() if isinstance(key, (Ed25519PrivateKey, EllipticCurvePrivateKey)) else key, path)
        self._key = key

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        arguments = () if isinstance(self._key, Ed25519PrivateKey) else (ECDSA(SHA256()),)
        signature: bytes = self._key.sign(message, *arguments)  # type: ignore[attr-defined]
        return signature


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
        raise FormatError(f"{path!r} is a private key, which belongs to its owner alone: name the file with its public key")
    try:
        key = forms.load_pem_public_key(data) if data.lstrip().startswith(b"-----BEGIN") else forms.load_ssh_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise FormatError(f"{path!r} has no public key in PEM (BEGIN PUBLIC KEY) or in the form of OpenSSH: {_REMEDY}") from None
    return PublicKey(key, path)


def read_private_key(path: str, ask: Callable[[str], str]) -> PrivateKey:
    """Read a private key, in PEM or in the form of OpenSSH. If it is encrypted, `ask` returns the passphrase of the file.

    Raises
    ------
    FormatError
        The file has none, or one of another algorithm; the passphrase is wrong; or it is encrypted by OpenSSH, and bcrypt is missing.
    OSError
        The file cannot be read.
    """
    data = _read(path)
    key = _decode(data, path, None)
    return PrivateKey(_decode(data, path, ask(path).encode()) if key is None else key, path)


def _decode(data: bytes, path: str, passphrase: bytes | None) -> object:
    """Return a private key; None if it is encrypted, and there is no passphrase."""
    load = forms.load_ssh_private_key if b"BEGIN OPENSSH PRIVATE KEY" in data else forms.load_pem_private_key
    try:
        return load(data, passphrase)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        text = str(error)
    if passphrase is None and "password" in text.lower():  # a TypeError or a ValueError, by the version of cryptography
        return None
    if "bcrypt" in text:
        raise FormatError(f"{path!r} is encrypted by OpenSSH, which only bcrypt can read: pip install bcrypt")
    if passphrase is None:
        raise FormatError(f"{path!r} has no private key in PEM (BEGIN PRIVATE KEY) or in the form of OpenSSH: {_REMEDY}")
    raise FormatError(f"{path!r} cannot be decrypted: the passphrase is wrong, or the file is damaged")


def write_new_key(path: str, passphrase: str) -> str:
    """Make an Ed25519 key. Write it to a new file that its owner alone can read, and its public key beside it. Return the second path.

    Parameters
    ----------
    path
        The file of the private key. That of the public key has ``.pub`` in the place of ``.pem`` or after another name.
    passphrase
        What encrypts it; "": nothing.

    Raises
    ------
    FileExistsError
        One of both files exists. Nothing is written.
    OSError
        One of them cannot be written.
    """
    key, public = Ed25519PrivateKey.generate(), f"{path.removesuffix('.pem')}.pub"
    encryption = forms.BestAvailableEncryption(passphrase.encode()) if passphrase else forms.NoEncryption()
    _write_new(public, key.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo), 0o644)
    try:
        _write_new(path, key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, encryption), 0o600)
    except BaseException:
        os.unlink(public)
        raise
    return public


def _write_new(path: str, data: bytes, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode), "wb") as file:
        file.write(data)


def _read(path: str) -> bytes:
    with open_regular(path) as file:
        return file.read(MAX_KEY)
