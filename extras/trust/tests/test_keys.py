"""Private and public keys in the forms of PEM and OpenSSH, and the files that `devmod keygen`
writes.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from each_case import refusal
from signing import limited_files

import devmod
from devmod_trust._envelope import Envelope, Signature
from devmod_trust._keys import read_private_key, read_public_key, write_new_key

MAKE: dict[str, Callable[[], ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey]] = {
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
}
FORMS = {
    "PEM": (forms.PrivateFormat.PKCS8, forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo),
    "SEC1": (
        forms.PrivateFormat.TraditionalOpenSSL,
        forms.Encoding.PEM,
        forms.PublicFormat.SubjectPublicKeyInfo,
    ),
    "OpenSSH": (forms.PrivateFormat.OpenSSH, forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH),
}
REMEDY = "`devmod keygen` makes one, and so does ssh-keygen -t ed25519"


def never(_: str) -> str:
    raise AssertionError("nothing is encrypted")


def sign_and_check(private: Path, public: Path, ask: Callable[[str], str] = never) -> None:
    """Sign with one file, and check with the other."""
    key, other = read_private_key(str(private), ask), read_public_key(str(public))
    assert (key.public.data, key.public.keyid) == (other.data, other.keyid)
    envelope = Envelope(
        b"payload",
        (
            Signature("a hint to nothing", b"0" * 64),
            Signature("", key.sign(Envelope(b"payload", ()).message)),
        ),
    )
    assert other.has_signed(envelope)
    assert not other.has_signed(envelope._replace(payload=b"Payload"))
    assert not other.has_signed(envelope._replace(signatures=envelope.signatures[:1]))


@pytest.mark.parametrize(
    ("algorithm", "form"),
    [(a, form) for a in MAKE for form in FORMS if (a, form) != ("Ed25519", "SEC1")],
)
@pytest.mark.parametrize("passphrase", ["", "pässword"])
def test_a_key_of_each_form_signs_and_checks(
    algorithm: str, form: str, passphrase: str, tmp_path: Path
) -> None:
    private_form, encoding, public_form = FORMS[form]
    key = MAKE[algorithm]()
    encryption = (
        forms.BestAvailableEncryption(passphrase.encode()) if passphrase else forms.NoEncryption()
    )
    (tmp_path / "k").write_bytes(key.private_bytes(forms.Encoding.PEM, private_form, encryption))
    (tmp_path / "k.pub").write_bytes(key.public_key().public_bytes(encoding, public_form))
    sign_and_check(
        tmp_path / "k", tmp_path / "k.pub", (lambda _: passphrase) if passphrase else never
    )
    for wrong in ("another", "") if passphrase else ():
        text = refusal(
            devmod.FormatError,
            read_private_key,
            str(tmp_path / "k"),
            lambda path, wrong=wrong: wrong,
        )
        assert (
            text
            == f"{str(tmp_path / 'k')!r} cannot be decrypted: the passphrase is wrong, or the file is damaged"
        )


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
@pytest.mark.parametrize("algorithm", ["ed25519", "ecdsa"])
def test_the_keys_of_ssh_keygen(algorithm: str, tmp_path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", algorithm, "-N", "", "-C", "a comment", "-f", tmp_path / "id"],
        check=True,
    )
    sign_and_check(tmp_path / "id", tmp_path / "id.pub")
    with (tmp_path / "id.pub").open("a") as file:
        file.write("\n")
    sign_and_check(tmp_path / "id", tmp_path / "id.pub")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_without_bcrypt_an_encrypted_key_of_openssh_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> bytes:
        raise UnsupportedAlgorithm("Need bcrypt module")  # what cryptography has in its place

    monkeypatch.setattr("cryptography.hazmat.primitives.serialization.ssh._bcrypt_kdf", missing)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "id"], check=True
    )
    assert (
        refusal(devmod.FormatError, read_private_key, str(tmp_path / "id"), lambda _: "secret")
        == f"{str(tmp_path / 'id')!r} is encrypted by OpenSSH, which only bcrypt can read: pip install bcrypt"
    )


@pytest.mark.parametrize(
    "key",
    [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1())],
    ids=["RSA", "P-384"],
)
def test_other_algorithms_are_refused(key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    private, public = str(tmp_path / "k"), str(tmp_path / "k.pub")
    Path(private).write_bytes(
        key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    )
    Path(public).write_bytes(
        key.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)
    )
    for path, read in (
        (private, lambda: read_private_key(private, never)),
        (public, lambda: read_public_key(public)),
    ):
        assert (
            refusal(devmod.FormatError, read)
            == f"the key in {path!r} is no Ed25519 key, and no ECDSA key of the curve P-256: {REMEDY}"
        )


def test_files_without_a_key(tmp_path: Path) -> None:
    path = str(tmp_path / "k")
    write_new_key(path, "")
    assert (
        refusal(devmod.FormatError, read_public_key, path)
        == f"{path!r} is a private key, which belongs to its owner alone: name the file with its public key"
    )
    for data in (
        b"",
        b"\0\xff",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        b"ssh-ed25519 AAAA",
        b"ssh-dss AAAA x",
    ):
        Path(path).write_bytes(data)
        assert (
            refusal(devmod.FormatError, read_public_key, path)
            == f"{path!r} has no public key in PEM (BEGIN PUBLIC KEY) or in the form of OpenSSH: {REMEDY}"
        )
        assert (
            refusal(devmod.FormatError, read_private_key, path, never)
            == f"{path!r} has no private key in PEM (BEGIN PRIVATE KEY) or in the form of OpenSSH: {REMEDY}"
        )


@pytest.mark.parametrize("passphrase", ["", "secret"])
def test_a_new_key_is_its_owners_alone_and_replaces_none(passphrase: str, tmp_path: Path) -> None:
    private = tmp_path / "acme.pem"
    made = write_new_key(str(private), passphrase)
    assert (made, stat.S_IMODE(private.stat().st_mode)) == (str(tmp_path / "acme.pub"), 0o600)
    assert (b"ENCRYPTED" in private.read_bytes()) is bool(passphrase)
    sign_and_check(private, tmp_path / "acme.pub", (lambda _: passphrase) if passphrase else never)
    before = private.read_bytes()
    for missing in ("acme.pem", "acme.pub"):
        kept = (tmp_path / missing).read_bytes()
        with pytest.raises(FileExistsError):
            write_new_key(str(private), "")
        (tmp_path / missing).unlink()
        with pytest.raises(FileExistsError):
            write_new_key(str(private), "")
        assert not (tmp_path / missing).exists()
        (tmp_path / missing).write_bytes(kept)
    assert private.read_bytes() == before
    assert [write_new_key(name, "") for name in (f"{private}.key", f"{tmp_path}/k")] == [
        f"{private}.key.pub",
        f"{tmp_path}/k.pub",
    ]


@pytest.mark.parametrize("size", [20, 115])
def test_a_full_disk_leaves_no_key(size: int, tmp_path: Path) -> None:
    with limited_files(size), pytest.raises(OSError, match="File too large"):
        write_new_key(str(tmp_path / "acme.pem"), "")
    assert not [*tmp_path.iterdir()]
