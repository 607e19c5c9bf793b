"""`devmod push` and `devmod pull`, with Debian's docker-registry and with registries that lie."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs
from urllib.request import urlopen

import pytest
from signing import bundle, limited_files, policy, refusal, run, signed

import devmod

pytest.importorskip("oras", reason='oras is not installed: pip install "devmod-trust[oci]"')
PROGRAM = shutil.which("docker-registry")
#: Of the user "me".
PASSWORD = "Basic bWU6c2VjcmV0"


@pytest.fixture(name="registry", scope="module")
def registry_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry on this machine: its host and port."""
    if PROGRAM is None:
        pytest.skip("docker-registry is not installed: apt-get install docker-registry")
    folder = tmp_path_factory.mktemp("registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "config.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder}}}, delete: {{enabled: true}}}}\nhttp: {{addr: '{host}'}}\n"
    )
    process = subprocess.Popen([PROGRAM, "serve", str(folder / "config.yml")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                urlopen(f"http://{host}/v2/").close()
                break
            except OSError:
                time.sleep(0.05)
        yield host
    finally:
        process.kill()
        process.wait()


def test_a_file_and_its_signatures_are_one_artifact(
    registry: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = signed("k/f.devmod")
    signed("other.devmod")  # the same content under another name
    status, out, err = run(capsys, "push", "k/f.devmod", f"oci://{registry}/acme/softmax:3")
    assert (status, err) == (0, "")
    assert out.startswith(f"oci://{registry}/acme/softmax@sha256:")
    Path("other.devmod.sig").write_bytes(signature)
    assert run(capsys, "push", "other.devmod", f"oci://{registry}/acme/softmax:4")[1] == out
    for address in (f"oci://{registry}/acme/softmax:3", out.strip()):
        assert run(capsys, "pull", address) == (0, "softmax.devmod, and its signatures in softmax.devmod.sig\n", "")
        assert (Path("softmax.devmod").read_bytes(), Path("softmax.devmod.sig").read_bytes()) == (bundle(), signature)
        Path("softmax.devmod").unlink()
    run(capsys, "pull", f"oci://{registry}/acme/softmax:3", "-o", "k/g.devmod")
    monkeypatch.setenv("DEVMOD_TRUST", policy())
    assert devmod.load("k/g.devmod").kind == "toy"


def test_without_signatures_old_ones_are_removed(
    registry: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("plain.devmod").write_bytes(bundle())
    run(capsys, "push", "plain.devmod", f"oci://{registry}/plain")
    Path("k").mkdir(exist_ok=True)
    Path("k/f.devmod.sig").write_bytes(b"old")
    assert run(capsys, "pull", f"oci://{registry}/plain", "-o", "k/f.devmod") == (0, "k/f.devmod; it has no signatures\n", "")
    assert not Path("k/f.devmod.sig").exists()
    monkeypatch.setenv("DEVMOD_TRUST", policy())
    assert "it has no signature" in refusal(devmod.load, "k/f.devmod")


@pytest.mark.parametrize(
    "address", ["oci://acme", "https://acme/x:1", "oci://me:secret@acme/x:1", "oci://acme/../x:1", "oci://acme/a/../x"]
)
def test_an_invalid_address(capsys: pytest.CaptureFixture[str], address: str) -> None:
    text = f"devmod: error: {address!r} is no address of a registry; expected oci://HOST/REPOSITORY:TAG\n"
    assert run(capsys, "pull", address) == (1, "", text)


def test_a_registry_that_cannot_be_reached_and_a_file_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    status, _, err = run(capsys, "pull", "oci://127.0.0.1:9/nothing:1")
    assert (status, "Connection refused" in err, time.monotonic() - began < 60) == (1, True, True)  # oras repeats it for two minutes
    Path("f.devmod").write_bytes(b"no bundle")
    text = "devmod: error: 'f.devmod' is not a bundle: it does not begin with the magic bytes of a .devmod file\n"
    assert run(capsys, "push", "f.devmod", "oci://127.0.0.1:9/x:1") == (1, "", text)


class Handler(BaseHTTPRequestHandler):
    """A registry with the answers of a test, by the last part of a path. It asks for what `challenge` says, which may be a token of a scope."""

    answers: dict[str, bytes] = {}
    challenge = ""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        scope = "pull" if self.command == "GET" else "pull,push"
        given, realm = self.headers.get("Authorization", ""), f'realm="http://{self.headers["Host"]}/token",scope="{scope}"'
        status, content, headers = 200, self.answers.get(path.rpartition("/")[2]), {"Location": f"{path}1?state=2"}
        if path == "/token":
            status, content = (
                (200 if given == PASSWORD else 401),
                json.dumps({"token": f"{parse_qs(query)['scope'][0]} {len(self.answers)}"}).encode(),
            )
        elif self.challenge and given != (PASSWORD if self.challenge == "Basic" else f"Bearer {scope} {len(self.answers)}"):
            status, headers = 401, {"WWW-Authenticate": f"{self.challenge} {realm}"}
        elif self.command == "PUT":
            self.answers[parse_qs(query).get("digest", [path.rpartition("/")[2]])[0]] = body
        elif self.command == "GET" and content is None:
            status = 404
        self.send_response(202 if self.command == "POST" and status == 200 else status)
        if content and content[:2] == b"\x1f\x8b":
            headers["Content-Encoding"] = "gzip"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content or b"")

    do_GET = do_POST = do_PUT = answer

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(name="liar")
def liar_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address of a registry, and its answers."""
    monkeypatch.setattr(Handler, "answers", {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"oci://127.0.0.1:{server.server_port}/acme", Handler.answers
    server.shutdown()
    server.server_close()


def manifest(*layers: dict[str, object]) -> bytes:
    return json.dumps({"schemaVersion": 2, "layers": layers}).encode()


DATA = bundle()
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
LAYER = {"mediaType": "application/vnd.devmod.file.v1", "digest": DIGEST, "size": len(DATA)}
NONE = "it is no artifact that devmod push wrote"
MORE = "the registry sent more bytes than it announced"
OTHER = f"the registry sent other bytes than those with the digest {DIGEST}"


@pytest.mark.parametrize(
    ("found", "blob", "text"),
    [
        *((found, DATA, NONE) for found in (b"", b"[" * 100_000, b"{}", manifest())),
        (manifest({**LAYER, "mediaType": "application/vnd.oci.image.layer.v1.tar"}), DATA, NONE),
        (manifest({**LAYER, "digest": "sha256:../../x"}), DATA, NONE),
        (manifest({**LAYER, "size": "1"}), DATA, NONE),
        (manifest({**LAYER, "size": 10}), DATA, MORE),
        (b" " * (2 << 20), DATA, MORE),
        (manifest(LAYER), DATA.replace(b"the payload", b"THE PAYLOAD"), OTHER),
        (manifest(LAYER), DATA[:-1], OTHER),
        (manifest(LAYER), gzip.compress(DATA), OTHER),
        (manifest(LAYER), DATA + b"x", MORE),
        (manifest(LAYER), None, "the registry answered 404 Not Found"),
    ],
    ids=range(14),
)
def test_a_registry_that_lies(
    liar: tuple[str, dict[str, bytes]], capsys: pytest.CaptureFixture[str], found: bytes, blob: bytes | None, text: str
) -> None:
    address, answers = liar
    Path("acme.devmod.sig").write_bytes(b"of an old file")
    answers |= {"latest": found} | ({} if blob is None else {DIGEST: blob})
    assert run(capsys, "pull", address) == (1, "", f"devmod: error: {address}: {text}\n")
    assert (Path("acme.devmod").exists(), Path("acme.devmod.sig").read_bytes()) == (False, b"of an old file")


def test_a_digest_in_the_address(liar: tuple[str, dict[str, bytes]], capsys: pytest.CaptureFixture[str]) -> None:
    address, answers = liar
    digest = f"sha256:{'0' * 64}"
    answers |= {"latest": manifest(LAYER), digest: manifest(LAYER), DIGEST: DATA}
    assert run(capsys, "pull", address)[0] == 0
    text = f"devmod: error: {address}@{digest}: its manifest has another SHA-256 than the address\n"
    assert run(capsys, "pull", f"{address}@{digest}") == (1, "", text)


@pytest.mark.parametrize("challenge", ["Basic", "Bearer"])
def test_a_registry_asks_for_a_password_or_for_a_token_of_a_scope(
    liar: tuple[str, dict[str, bytes]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, challenge: str
) -> None:
    """A token for reading does not suffice for an upload, and each expires when a blob is stored."""
    address, answers = liar
    monkeypatch.setattr(Handler, "challenge", challenge)
    monkeypatch.setenv("HOME", os.getcwd())
    signed("f.devmod")
    host = address.removeprefix("oci://").partition("/")[0]
    error = f"devmod: error: {address}: the registry asks for a password that is not known: docker login {host}\n"
    status, _, err = run(capsys, "push", "f.devmod", address)
    assert (status, err.endswith(error)) == (1, True)  # oras logs a line
    Path(".docker").mkdir()
    Path(".docker/config.json").write_text(json.dumps({"auths": {host: {"auth": PASSWORD.removeprefix("Basic ")}}}))
    assert run(capsys, "push", "f.devmod", address)[::2] == (0, "")
    assert run(capsys, "pull", address, "-o", "g.devmod")[0] == 0
    assert Path("g.devmod").read_bytes() == bundle() == answers[DIGEST]


def test_a_full_disk_replaces_no_file(liar: tuple[str, dict[str, bytes]], capsys: pytest.CaptureFixture[str]) -> None:
    address, answers = liar
    large = b"x" * 50_000
    digest = f"sha256:{hashlib.sha256(large).hexdigest()}"
    signatures = {"mediaType": "application/vnd.devmod.signatures.v1", "digest": digest, "size": len(large)}
    answers |= {"latest": manifest(LAYER, signatures), DIGEST: DATA, digest: large}
    for name in ("f.devmod", "f.devmod.sig"):
        Path(name).write_text("old")
    with limited_files(10_000):
        assert run(capsys, "pull", address, "-o", "f.devmod") == (1, "", "devmod: error: f.devmod.sig: File too large\n")
    assert {name: Path(name).read_text() for name in os.listdir() if name != "cache"} == {"f.devmod": "old", "f.devmod.sig": "old"}


def test_a_host_without_a_dot_is_no_name_at_docker_hub(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def get(_: object, method: str, url: str, **options: object) -> None:
        raise OSError(url)

    monkeypatch.setattr("requests.Session.request", get)
    for host, scheme in (("localhost", "http"), ("registry", "https")):
        text = f"devmod: error: oci://{host}/acme/x: OSError: {scheme}://{host}/v2/\n"
        assert run(capsys, "pull", f"oci://{host}/acme/x") == (1, "", text)


def test_a_file_of_signatures_that_is_too_large_is_not_pushed(capsys: pytest.CaptureFixture[str]) -> None:
    signed("f.devmod")
    Path("f.devmod.sig").write_bytes(bytes(2 << 20))
    assert run(capsys, "push", "f.devmod", "oci://localhost:9/x")[2] == "devmod: error: 'f.devmod.sig' has more than 1048576 bytes\n"


def test_a_url_of_a_registry_cannot_be_loaded() -> None:
    with pytest.raises(devmod.FetchError, match=r"`devmod pull` gets a file of a registry"):
        devmod.load("oci://acme.example/softmax:3", signature=b"")
