"""Signatures of identities, by sigstore's own client, with its services on this machine.

The services are @sigstore/mock, which sigstore's client in JavaScript is tested with: a certificate authority with a log, and Rekor. What needs
the public services is not tested: their own certificates, and a login in the browser.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from signing import bundle, policy, refusal, signed

import devmod
from devmod._cli import main

pytest.importorskip("sigstore", reason='sigstore is not installed: pip install "devmod-trust[sigstore]"')
HERE = Path(__file__).resolve().parent
MODULES = HERE.parents[1] / "browser" / "js"
ISSUER = "https://issuer.example"


def token(identity: str) -> str:
    """Return the token of an identity. The services here check no signature of it."""
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "sub": identity,
        "email": identity,
        "email_verified": True,
        "aud": "sigstore",
        "iat": now - 5,
        "nbf": now - 5,
        "exp": now + 900,
    }
    return ".".join(urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in ({"alg": "none"}, claims, "x"))


@pytest.fixture(name="services", scope="module")
def services_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The path of the configuration of running services."""
    node = shutil.which("node")
    if node is None or not (MODULES / "node_modules" / "@sigstore" / "mock").is_dir():
        pytest.skip("@sigstore/mock is not installed: make test-setup installs it with npm")
    process = subprocess.Popen([node, str(HERE / "sigstore_services.cjs"), str(MODULES)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        path = tmp_path_factory.mktemp("sigstore") / "config.json"
        path.write_text(process.stdout.readline())
        yield str(path)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(name="sign")
def sign_fixture(services: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    """A function that signs k/f.devmod as an identity, and a policy for me@acme.example."""

    def sign(identity: str, *more: str, path: str = "k/f.devmod") -> int:
        monkeypatch.setenv("SIGSTORE_IDENTITY_TOKEN", token(identity))
        status = main(["sign", path, "--sigstore", "--sigstore-config", services, "--name", "acme/f", "--version", "3", *more])
        capsys.readouterr()
        return status

    Path("k").mkdir()
    Path("k/f.devmod").write_bytes(bundle())
    shutil.copy(services, "config.json")
    monkeypatch.setenv("DEVMOD_TRUST", policy(rule()))
    return sign


def rule(identity: str = "me@acme.example", issuer: str = ISSUER, config: str = 'config = "config.json"', more: str = "") -> str:
    key = f'{{ issuer = "{issuer}", identity = "{identity}"{config and f", {config}"} }}'
    return f'[[rule]]\nsource = ["k/*"]\nname = "acme/f"\nkeys = [{key}{more}]\n'


@pytest.mark.row("R46")
def test_a_file_that_an_identity_has_signed(sign: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert sign("me@acme.example") == 0  # type: ignore[operator]
    assert devmod.load("k/f.devmod").kind == "toy"
    main(["check", "k/f.devmod"])
    assert capsys.readouterr().out.splitlines()[1].endswith("trust.toml: signed by me@acme.example")
    main(["inspect", "k/f.devmod"])
    assert "Keys of the signatures beside it, not checked: 'sigstore:me@acme.example'." in capsys.readouterr().out


@pytest.mark.row("R46")
def test_another_identity_issuer_and_file_are_refused(sign: object) -> None:
    assert sign("you@acme.example") == 0  # type: ignore[operator]
    assert "it is not signed by a key that counts, and the rule needs 1 of 'me@acme.example'" in refusal(devmod.load, "k/f.devmod")
    assert sign("me@acme.example") == 0  # type: ignore[operator] - both have signed
    assert devmod.load("k/f.devmod").kind == "toy"
    policy(rule(issuer="https://other.example"))
    assert "not signed by a key that counts" in refusal(devmod.load, "k/f.devmod")
    policy(rule())
    Path("k/g.devmod").write_bytes(bundle(b"another payload"))
    shutil.copy("k/f.devmod.sig", "k/g.devmod.sig")
    assert "'me@acme.example' has signed another file" in refusal(devmod.load, "k/g.devmod")


@pytest.mark.row("R46")
def test_a_planted_certificate_signature_or_log_entry_is_refused(sign: object) -> None:
    assert sign("me@acme.example") == 0  # type: ignore[operator]
    path = Path("k/f.devmod.sig")
    good = json.loads(path.read_bytes())
    sign("you@acme.example", "--replace")  # type: ignore[operator]
    other = next(each["sigstore"] for each in json.loads(path.read_bytes())["signatures"] if each["keyid"] == "sigstore:you@acme.example")
    own = good["signatures"][0]["sigstore"]
    statement = json.loads(b64decode(good["payload"]))
    statement["predicate"]["buildDefinition"]["externalParameters"]["version"] = 4
    changed = urlsafe_b64encode(json.dumps(statement).encode()).decode()
    for bad in (
        own | {"verificationMaterial": other["verificationMaterial"]},
        own | {"dsseEnvelope": other["dsseEnvelope"]},
        own | {"dsseEnvelope": own["dsseEnvelope"] | {"payload": changed}},
        own | {"verificationMaterial": {**own["verificationMaterial"], "tlogEntries": []}},
        own | {"verificationMaterial": {**own["verificationMaterial"], "tlogEntries": other["verificationMaterial"]["tlogEntries"]}},
        {}, [], "x", None, {"mediaType": "x" * 1000},
    ):  # fmt: skip
        path.write_text(json.dumps(good | {"signatures": [good["signatures"][0] | {"sigstore": bad}]}))
        assert "not signed by a key that counts" in refusal(devmod.load, "k/f.devmod")
    path.write_text(json.dumps(good | {"payload": changed}))
    assert "not signed by a key that counts" in refusal(devmod.load, "k/f.devmod")
    path.write_text(json.dumps(good))
    assert devmod.load("k/f.devmod").kind == "toy"


@pytest.mark.row("R46")
def test_a_key_and_an_identity_are_two_signers(sign: object) -> None:
    signed("k/f.devmod")
    both = rule(more=', "acme.pub"') + "threshold = 2\n"
    policy(both)
    assert "the rule needs 2 of 'me@acme.example', 'acme.pub'" in refusal(devmod.load, "k/f.devmod")
    assert sign("me@acme.example") == 0  # type: ignore[operator]
    assert devmod.load("k/f.devmod").kind == "toy"


@pytest.mark.row("R46")
def test_the_public_root_of_the_wheel_refuses_a_private_signature(sign: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root is read without a request: there is no network in these tests."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert sign("me@acme.example") == 0  # type: ignore[operator]
    policy(rule(config=""))
    assert "not signed by a key that counts" in refusal(devmod.load, "k/f.devmod")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ('{ issuer = "a" }', "keys: 'a' needs an identity"),
        (
            '{ issuer = "a", identity = "b", file = "acme.pub" }',
            'keys: expected "FILE", { file = "FILE" } or { issuer = "URL", identity = "NAME" }, got ',
        ),
        ('{ issuer = "a", identity = 5 }', 'keys: expected "FILE", { file = "FILE" } or { issuer = "URL", identity = "NAME" }, got '),
        ('{ issuer = "a", identity = "b", subject = "c" }', "keys: it has the unknown key 'subject'"),
    ],
)
def test_an_invalid_identity_refuses_everything(monkeypatch: pytest.MonkeyPatch, entry: str, text: str) -> None:
    signed("k/f.devmod")
    monkeypatch.setenv("DEVMOD_TRUST", policy(f'[[rule]]\nsource = ["k/*"]\nname = "acme/f"\nkeys = [{entry}]\n'))
    assert f"is invalid, so everything is refused: rule 1: {text}" in refusal(devmod.load, "k/f.devmod")


def test_a_service_that_cannot_be_reached(
    sign: object, services: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Path(services).read_text()
    port = json.loads(config)["signingConfig"]["caUrls"][0]["url"]
    Path("config.json").write_text(config.replace(port, "http://127.0.0.1:9"))
    monkeypatch.setenv("SIGSTORE_IDENTITY_TOKEN", token("me@acme.example"))
    arguments = ["sign", "k/f.devmod", "--sigstore", "--sigstore-config", "config.json", "--name", "acme/f", "--version", "3"]
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith("devmod: error: sigstore cannot sign: ")
    monkeypatch.setenv("SIGSTORE_IDENTITY_TOKEN", "x")
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith("devmod: error: sigstore cannot sign: ")
    Path("config.json").write_text("{}")
    signed("k/f.devmod")
    refusal(devmod.load, "k/f.devmod")


def test_without_sigstore_an_error_has_the_command_that_installs_it(sign: object) -> None:
    assert sign("me@acme.example") == 0  # type: ignore[operator]
    program = (
        "import sys\nfor each in ('sigstore', 'sigstore.verify', 'sigstore.dsse'): sys.modules[each] = None\n"
        "import devmod\nfrom devmod._cli import main\n"
        "try:\n    devmod.load('k/f.devmod')\nexcept devmod.TrustError as error:\n    print(error)\n"
        "main(['sign', 'k/f.devmod', '--sigstore', '--name', 'acme/f', '--version', '3'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'pip install "devmod-trust[sigstore]"' in done.stdout
    assert 'pip install "devmod-trust[sigstore]"' in done.stderr
