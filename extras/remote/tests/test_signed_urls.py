"""Signatures of bundles at URLs: which are read, and what is cached."""

from __future__ import annotations

from typing import Any

import pytest
from bundles import bundle_of
from checker import checker, policy, refusal
from http_server import Handler, Server

import devmod

__all__ = ["checker", "policy"]

FILE = bundle_of(first=b"1")


@pytest.mark.row("R46")
def test_the_signature_of_a_url_has_sig_after_its_path(checker: Any, server: Server) -> None:
    server.files["k.devmod"] = FILE
    url = server.url("k.devmod?token=secret").replace("http://", "http://user:password@")
    assert refusal(devmod.load, url) == f"{server.url()} has no signature"
    server.files["k.devmod.sig"] = b"signed"
    module = devmod.load(url)
    assert checker.asked[-1][0] == server.url()
    assert [path for path, _ in server.requests] == [
        "/k.devmod?token=secret",
        "/k.devmod.sig?token=secret",
    ] * 2
    assert module.save_to_bytes() == b"1"
    server.files["k.devmod.sig"] = b"another"
    assert refusal(devmod.load, url)
    server.requests.clear()
    assert devmod.load(url, signature=b"signed").kind == "first"
    assert [path for path, _ in server.requests] == ["/k.devmod?token=secret"]


@pytest.mark.row("R46")
def test_the_cache_has_the_signature_with_the_file(checker: Any, server: Server) -> None:
    server.files |= {"k.devmod": FILE, "k.devmod.sig": b"signed", "unsigned.devmod": FILE}
    devmod.load(server.url())
    assert devmod.load(server.url(), offline=True).kind == "first"
    assert refusal(devmod.load, server.url("unsigned.devmod"))
    with pytest.raises(devmod.FetchError) as caught:
        devmod.load(server.url("unsigned.devmod"), offline=True)
    assert "unsigned.devmod.sig' cannot be read offline: it is not in the cache" in str(
        caught.value
    )


@pytest.mark.row("R46")
def test_a_server_that_fails_to_give_the_signature_is_an_error(
    checker: Any, server: Server
) -> None:
    server.files["k.devmod"] = FILE

    def fail(handler: Handler, server: Server) -> bool:
        handler.status(500)
        return True

    server.answers = [lambda handler, server: False, fail]
    with pytest.raises(devmod.FetchError) as caught:
        devmod.load(server.url(), retries=0)
    assert "k.devmod.sig' cannot be read: the server answered 500" in str(caught.value)
