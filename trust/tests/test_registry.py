"""`devmod push` and `devmod pull`, with Debian's docker-registry and with registries that lie."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

import pytest
from signing import bundle, policy, refusal, signed

import devmod
from devmod._cli import main

pytest.importorskip("oras", reason='oras is not installed: pip install "devmod-trust[oci]"')
PROGRAM = shutil.which("docker-registry")


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
        yield f"{host}|{folder}"
    finally:
        process.kill()
        process.wait()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main([*arguments])
    return (status, *capsys.readouterr())


def test_a_file_and_its_signatures_are_one_artifact(
    registry: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = registry.partition("|")[0]
    signature = signed("k/f.devmod")
    signed("other.devmod")  # the same content under another name
    status, out, err = run(capsys, "push", "k/f.devmod", f"oci://{host}/acme/softmax:3")
    assert (status, err) == (0, "")
    assert out.startswith(f"oci://{host}/acme/softmax@sha256:")
    Path("other.devmod.sig").write_bytes(signature)
    assert run(capsys, "push", "other.devmod", f"oci://{host}/acme/softmax:4")[1] == out
    for address in (f"oci://{host}/acme/softmax:3", out.strip()):
        assert run(capsys, "pull", address) == (0, "softmax.devmod, and its signatures in softmax.devmod.sig\n", "")
        assert (Path("softmax.devmod").read_bytes(), Path("softmax.devmod.sig").read_bytes()) == (bundle(), signature)
        Path("softmax.devmod").unlink()
    run(capsys, "pull", f"oci://{host}/acme/softmax:3", "-o", "k/g.devmod")
    monkeypatch.setenv("DEVMOD_TRUST", policy())
    assert devmod.load("k/g.devmod").kind == "toy"


def test_without_signatures_old_ones_are_removed(
    registry: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = registry.partition("|")[0]
    Path("plain.devmod").write_bytes(bundle())
    run(capsys, "push", "plain.devmod", f"oci://{host}/plain")
    Path("k").mkdir(exist_ok=True)
    Path("k/f.devmod.sig").write_bytes(b"old")
    assert run(capsys, "pull", f"oci://{host}/plain", "-o", "k/f.devmod") == (0, "k/f.devmod; it has no signatures\n", "")
    assert not Path("k/f.devmod.sig").exists()
    monkeypatch.setenv("DEVMOD_TRUST", policy())
    assert "it has no signature" in refusal(devmod.load, "k/f.devmod")


def test_a_spoiled_blob_is_refused(registry: str, capsys: pytest.CaptureFixture[str]) -> None:
    """oras pulls it without a word."""
    host, _, folder = registry.partition("|")
    data = bundle(b"a payload that is spoiled")
    signed("f.devmod", data=data)
    Path("new.devmod.sig").write_bytes(b"of an old file")
    run(capsys, "push", "f.devmod", f"oci://{host}/spoiled:1")
    digest = hashlib.sha256(data).hexdigest()
    blob = Path(folder, "docker/registry/v2/blobs/sha256", digest[:2], digest, "data")
    for content, text in (
        (data.replace(b"spoiled", b"SPOILED"), f"the registry sent other bytes than those with the digest sha256:{digest}"),
        (data + b"x", ""),
        (data[:-1], ""),
    ):
        blob.write_bytes(content)
        status, out, err = run(capsys, "pull", f"oci://{host}/spoiled:1", "-o", "new.devmod")
        assert (status, out) == (1, "")
        assert err.startswith(f"devmod: error: oci://{host}/spoiled:1 cannot be pulled: the registry sent ")
        assert text in err
        assert not Path("new.devmod").exists()
        assert Path("new.devmod.sig").read_bytes() == b"of an old file"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("oci://acme", "'oci://acme' is no address of a registry; expected oci://HOST/REPOSITORY:TAG"),
        ("https://acme/x:1", "'https://acme/x:1' is no address of a registry; expected oci://HOST/REPOSITORY:TAG"),
        ("oci://user:password@acme/x:1", "'oci://user:password@acme/x:1' is no address of a registry; expected oci://HOST/REPOSITORY:TAG"),
        ("oci://acme/../x:1", "'oci://acme/../x:1' is no address of a registry; expected oci://HOST/REPOSITORY:TAG"),
    ],
)
def test_an_invalid_address(capsys: pytest.CaptureFixture[str], address: str, text: str) -> None:
    assert run(capsys, "pull", address) == (1, "", f"devmod: error: {text}\n")


def test_errors_of_a_registry(registry: str, capsys: pytest.CaptureFixture[str]) -> None:
    host = registry.partition("|")[0]
    assert run(capsys, "pull", f"oci://{host}/nothing:1") == (
        1, "", f"devmod: error: oci://{host}/nothing:1: ValueError: the registry answered 404 Not Found\n",
    )  # fmt: skip
    began = time.monotonic()
    status, _, err = run(capsys, "pull", "oci://127.0.0.1:9/nothing:1")
    assert (status, "Connection refused" in err, time.monotonic() - began < 60) == (1, True, True)  # oras repeats it for two minutes
    Path("f.devmod").write_bytes(b"no bundle")
    assert run(capsys, "push", "f.devmod", f"oci://{host}/x:1")[::2] == (
        1, "devmod: error: 'f.devmod' is not a bundle: it does not begin with the magic bytes of a .devmod file\n",
    )  # fmt: skip


class Liar(BaseHTTPRequestHandler):
    """A registry with the answers of a test."""

    answers: dict[str, bytes]

    def do_GET(self) -> None:
        body = self.answers.get(self.path.rpartition("/")[2])
        self.send_response(200 if body is not None else 404)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(name="liar")
def liar_fixture() -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address of a registry, and its answers by the last part of a path."""

    class Handler(Liar):
        answers: dict[str, bytes] = {}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"oci://127.0.0.1:{server.server_port}/acme", Handler.answers
    server.shutdown()
    server.server_close()


def manifest(*layers: dict[str, object]) -> bytes:
    return json.dumps({"schemaVersion": 2, "layers": layers}).encode()


DATA = bundle()
LAYER = {"mediaType": "application/vnd.devmod.file.v1", "digest": f"sha256:{hashlib.sha256(DATA).hexdigest()}", "size": len(DATA)}
NONE = "it is no artifact that devmod push wrote"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (b"", NONE),
        (b"[" * 100_000, NONE),
        (b"{}", NONE),
        (manifest(), NONE),
        (manifest({**LAYER, "mediaType": "application/vnd.oci.image.layer.v1.tar"}), NONE),
        (manifest({**LAYER, "digest": "sha256:../../x"}), NONE),
        (manifest({**LAYER, "size": "1"}), NONE),
        (manifest({**LAYER, "size": 10}), "the registry sent more bytes than it announced"),
        (b" " * (2 << 20), "the registry sent more bytes than it announced"),
    ],
    ids=range(9),
)
def test_a_registry_that_lies(liar: tuple[str, dict[str, bytes]], capsys: pytest.CaptureFixture[str], found: bytes, text: str) -> None:
    address, answers = liar
    answers |= {"latest": found, str(LAYER["digest"]): DATA}
    assert run(capsys, "pull", address) == (1, "", f"devmod: error: {address} cannot be pulled: {text}\n")
    assert not Path("acme.devmod").exists()
    answers["latest"] = manifest(LAYER)
    assert run(capsys, "pull", address)[0] == 0
    digest = f"sha256:{'0' * 64}"
    answers[digest] = answers["latest"]
    assert run(capsys, "pull", f"{address}@{digest}")[2] == (
        f"devmod: error: {address}@{digest} cannot be pulled: its manifest has another SHA-256 than the address\n"
    )


def test_a_url_of_a_registry_cannot_be_loaded() -> None:
    with pytest.raises(devmod.FetchError, match=r"`devmod pull` gets a file of a registry"):
        devmod.load("oci://acme.example/softmax:3", signature=b"")
