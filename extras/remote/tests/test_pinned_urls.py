"""URLs that end with the digest of a file: another file is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle_of
from checker import checker, policy
from command_line import printed_by
from each_case import error_of
from http_server import Server

import devmod

__all__ = ["checker", "policy"]

ONE, TWO = bundle_of(first=b"1"), bundle_of(first=b"2")
HEAD = int.from_bytes(ONE[12:16], "little")
DIGEST = hashlib.sha256(ONE[48 : 48 + HEAD]).hexdigest()


@pytest.mark.row("R41")
def test_the_file_that_the_address_names_is_loaded_and_no_other(server: Server) -> None:
    url = f"{server.url()}#devmod-head={DIGEST}"
    server.files["k.devmod"] = ONE
    assert devmod.load(url).save_to_bytes() == b"1"
    assert {path for path, _ in server.requests} == {"/k.devmod"}

    server.files["k.devmod"] = TWO
    found = TWO[16:48].hex()
    text = (
        f"'{server.url()}' is not the file that the address names: the SHA-256 of its head is {found}, "
        f"and the address has {DIGEST}. Nothing of it was used"
    )
    error = error_of(devmod.load, url)
    assert (type(error), str(error)) == (devmod.TrustError, text)
    assert devmod.load(server.url()).save_to_bytes() == b"2"


def test_a_file_that_only_says_the_digest_is_damaged(server: Server) -> None:
    server.files["k.devmod"] = TWO[:16] + ONE[16:48] + TWO[48:]
    error = error_of(devmod.load, f"{server.url()}#devmod-head={DIGEST}")
    assert "is damaged: the SHA-256 of its head is not the one in its header" in str(error)


@pytest.mark.parametrize(
    "digits",
    ["", "4f", DIGEST[:-1], f"{DIGEST}0", DIGEST.upper(), f"{DIGEST[:-1]}g", f"{DIGEST}&a=1"],
)
def test_a_digest_of_another_form_is_refused_before_a_request(digits: str, server: Server) -> None:
    server.files["k.devmod"] = ONE
    error: Any = error_of(devmod.load, f"{server.url()}#devmod-head={digits}")
    assert str(error) == (
        f"load(url): the URL ends with #devmod-head={digits!r:.80}; expected the 64 hexadecimal digits that devmod pin FILE prints"
    )
    assert (type(error), error.argument) == (devmod.ArgumentError, "path")
    assert not server.requests


@pytest.mark.row("R46")
def test_a_digest_is_no_signature(checker: Any, server: Server) -> None:
    server.files["k.devmod"] = ONE
    url = f"{server.url()}#devmod-head={DIGEST}"
    assert str(error_of(devmod.load, url)) == f"{server.url()} has no signature"
    server.files["k.devmod.sig"] = b"signed"
    assert devmod.load(url).kind == "first"
    assert checker.asked[-1][0] == server.url()


def test_the_command_prints_what_the_url_ends_with(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.devmod"
    path.write_bytes(ONE)
    server.files["k.devmod"] = TWO
    assert printed_by(capsys, "pin", path).out == f"#devmod-head={DIGEST}\n"
    found = printed_by(capsys, "pin", server.url()).out
    assert found == f"#devmod-head={TWO[16:48].hex()}\n"
    assert "standard input has no address" in printed_by(capsys, "pin", "-", status=2).err


def test_a_file_without_a_whole_head_has_no_digest(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.devmod"
    wrong = ONE[:60] + bytes([ONE[60] ^ 1]) + ONE[61:]
    for data, problem in (
        (wrong, "is damaged: the SHA-256 of its head is not the one in its header"),
        (ONE[:60], f"is cut short: a head of {HEAD} bytes, and 12 are left"),
        (ONE[:30], "is cut short: 30 bytes"),
        (b"", "is not a bundle"),
    ):
        path.write_bytes(data)
        server.files["k.devmod"] = data
        for file in (str(path), server.url()):
            shown = printed_by(capsys, "pin", file, status=1)
            assert f"{file!r} {problem}" in shown.err
            assert shown.out == ""
