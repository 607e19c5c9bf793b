"""HTTPS: a server with a certificate of an authority that the test makes."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bundles import bundle_of, noise
from http_server import Handler, Server, http_server

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")

A = noise(200_000, 1)
#: Loads the bundle at a URL in a process of its own: the certificates are read when aiohttp is
#: imported.
PROGRAM = """
import sys, devmod
try:
    print(len(devmod.load(sys.argv[1], retries=0).save_to_bytes()))
except devmod.FetchError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an authority, a certificate of it for 127.0.0.1, and one for another
    name.
    """
    folder = tmp_path_factory.mktemp("certificates")

    def run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    constraints = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    run(
        "req",
        "-x509",
        *new_key,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=Test CA",
        "-days",
        "2",
        *constraints,
    )
    for name, subject in (("server", "IP:127.0.0.1"), ("other", "DNS:example.test")):
        run(
            "req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"
        )
        (folder / f"{name}.ext").write_text(
            f"subjectAltName={subject}\nauthorityKeyIdentifier=keyid\n"
        )
        own = (
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            f"{name}.ext",
        )
        run("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *own)
    return folder


def context_of(folder: Path, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


@pytest.fixture
def secure(certificates: Path) -> Iterator[Server]:
    """Return a server with the certificate for 127.0.0.1."""
    with http_server(context_of(certificates, "server")) as server:
        server.files["k.devmod"] = bundle_of(first=A)
        yield server


def load(url: str, authority: Path | None = None) -> str:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("SSL_CERT")
    }
    if authority is not None:
        environment["SSL_CERT_FILE"] = os.fspath(authority)
    command = [sys.executable, "-W", "error", "-c", PROGRAM, url]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout.rstrip("\n")


def test_an_authority_in_ssl_cert_file_is_trusted(secure: Server, certificates: Path) -> None:
    assert load(secure.url(), certificates / "ca.pem") == "200000"


def test_an_unknown_authority_is_refused(secure: Server) -> None:
    assert load(secure.url()) == (
        f"'{secure.url()}' cannot be read: the certificate of the server is not trusted: unable to get local issuer certificate. "
        "To trust an authority of your own, set SSL_CERT_FILE to its file before Python starts"
    )
    assert secure.requests == []


def test_a_certificate_of_another_server_is_refused(certificates: Path) -> None:
    with http_server(context_of(certificates, "other")) as server:
        assert load(server.url(), certificates / "ca.pem") == (
            f"'{server.url()}' cannot be read: the certificate of the server is not trusted: IP address mismatch, certificate is not valid "
            "for '127.0.0.1'"
        )
        assert server.requests == []


def test_a_server_without_tls(server: Server, certificates: Path) -> None:
    url = server.url().replace("http:", "https:")
    text = load(url, certificates / "ca.pem")
    assert re.fullmatch(rf"'{url}' cannot be read: there is no secure connection: [A-Z_]+", text)


def test_a_redirect_to_http_is_refused(secure: Server, server: Server, certificates: Path) -> None:
    def redirect(handler: Handler, _: Server) -> bool:
        handler.status(302, Location=server.url())
        return True

    server.files["k.devmod"] = bundle_of(first=A)
    secure.answers = [redirect]
    assert load(secure.url(), certificates / "ca.pem") == (
        f"'{secure.url()}' cannot be read: the server redirects from HTTPS to HTTP, which anyone on the way can change"
    )
    assert server.requests == []
