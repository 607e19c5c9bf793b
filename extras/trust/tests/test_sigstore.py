"""Signatures of identities, by sigstore's own client, with its services on this machine.

The services are @sigstore/mock, which sigstore's client in JavaScript is tested with: a certificate
authority with a log, and Rekor. What needs the public services is not tested: their own
certificates, and a login in the browser.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import call as run
from signing import bundle, policy, refusal, signed

import devmod

pytest.importorskip(
    "sigstore", reason='sigstore is not installed: pip install "devmod-trust[sigstore]"'
)
HERE = Path(__file__).resolve().parent
MODULES = HERE.parents[2] / "extras" / "browser" / "js"
ISSUER = "https://issuer.example"
Sign = Callable[..., tuple[int, str]]


def token(identity: str) -> str:
    """Return the token of an identity. The services here check no signature of it."""
    now = int(time.time())
    who = {
        "iss": ISSUER,
        "sub": identity,
        "email": identity,
        "email_verified": True,
        "aud": "sigstore",
    }
    claims = who | {"iat": now - 5, "nbf": now - 5, "exp": now + 900}
    return ".".join(
        urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode()
        for each in ({"alg": "none"}, claims, "x")
    )


@pytest.fixture(name="services", scope="module")
def services_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The path of the configuration of running services."""
    node = shutil.which("node")
    if node is None or not (MODULES / "node_modules" / "@sigstore" / "mock").is_dir():
        pytest.skip("@sigstore/mock is not installed: make test-setup installs it with npm")
    process = subprocess.Popen(
        [node, str(HERE / "sigstore_services.cjs"), str(MODULES)], stdout=subprocess.PIPE, text=True
    )
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
def sign_fixture(
    services: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Sign:
    """A function that signs k/f.devmod as an identity and returns the status and the error, and a
    policy for me@acme.example.
    """

    def sign(identity: str, *more: str, config: str = services, given: str = "") -> tuple[int, str]:
        monkeypatch.setenv("SIGSTORE_IDENTITY_TOKEN", given or token(identity))
        arguments = (
            "--sigstore",
            "--sigstore-config",
            config,
            "--name",
            "acme/f",
            "--version",
            "3",
            *more,
        )
        return run(capsys, "sign", "k/f.devmod", *arguments)[::2]

    Path("k").mkdir()
    Path("k/f.devmod").write_bytes(bundle())
    shutil.copy(services, "config.json")
    monkeypatch.setenv("DEVMOD_TRUST", policy(rule()))
    return sign


def rule(
    identity: str = "me@acme.example",
    issuer: str = ISSUER,
    config: str = 'config = "config.json"',
    more: str = "",
) -> str:
    key = f'{{ issuer = "{issuer}", identity = "{identity}"{config and f", {config}"} }}'
    return f'[[rule]]\nsource = ["k/*"]\nname = "acme/f"\nkeys = [{key}{more}]\n'


@pytest.mark.row("R46")
def test_a_file_that_an_identity_has_signed(sign: Sign, capsys: pytest.CaptureFixture[str]) -> None:
    assert sign("me@acme.example") == (0, "")
    assert devmod.load("k/f.devmod").kind == "toy"
    assert run(capsys, "check", "k/f.devmod")[1].endswith("trust.toml: signed by me@acme.example\n")
    assert (
        "Keys of the signatures beside it, not checked: 'sigstore:me@acme.example'."
        in run(capsys, "inspect", "k/f.devmod")[1]
    )


@pytest.mark.row("R46")
def test_another_identity_issuer_and_file_are_refused(sign: Sign) -> None:
    assert sign("you@acme.example") == (0, "")
    assert (
        "it is not signed by a key that counts, and the rule needs 1 of 'me@acme.example'"
        in refusal(devmod.load, "k/f.devmod")
    )
    assert sign("me@acme.example") == (0, "")  # both have signed
    assert devmod.load("k/f.devmod").kind == "toy"
    for other in (
        rule(issuer="https://other.example"),
        rule(issuer=f"{ISSUER}/"),
        rule("Me@acme.example"),
        rule("me@acme.example "),
    ):
        policy(other)
        assert "not signed by a key that counts" in refusal(devmod.load, "k/f.devmod")
    policy(rule())
    Path("k/g.devmod").write_bytes(bundle(b"another payload"))
    shutil.copy("k/f.devmod.sig", "k/g.devmod.sig")
    assert "'me@acme.example' has signed another file" in refusal(devmod.load, "k/g.devmod")


@pytest.mark.row("R46")
def test_a_planted_certificate_signature_or_log_entry_is_refused(sign: Sign) -> None:
    assert sign("me@acme.example") == (0, "")
    path = Path("k/f.devmod.sig")
    good = json.loads(path.read_bytes())
    sign("you@acme.example", "--replace")
    other = next(
        each["sigstore"]
        for each in json.loads(path.read_bytes())["signatures"]
        if each["keyid"] == "sigstore:you@acme.example"
    )
    own = good["signatures"][0]["sigstore"]
    statement = json.loads(b64decode(good["payload"]))
    statement["predicate"]["buildDefinition"]["externalParameters"]["version"] = 4
    changed = urlsafe_b64encode(json.dumps(statement).encode()).decode()
    for bad in (
        own | {"verificationMaterial": other["verificationMaterial"]},
        own | {"dsseEnvelope": other["dsseEnvelope"]},
        own | {"dsseEnvelope": own["dsseEnvelope"] | {"payload": changed}},
        own | {"verificationMaterial": {**own["verificationMaterial"], "tlogEntries": []}},
        own
        | {
            "verificationMaterial": {
                **own["verificationMaterial"],
                "tlogEntries": other["verificationMaterial"]["tlogEntries"],
            }
        },
        {},
        [],
        "x",
        None,
        {"mediaType": "x" * 1000},
    ):
        path.write_text(
            json.dumps(good | {"signatures": [good["signatures"][0] | {"sigstore": bad}]})
        )
        assert "not signed by a key that counts" in refusal(devmod.load, "k/f.devmod")
    path.write_text(json.dumps(good | {"payload": changed}))
    assert "not signed by a key that counts" in refusal(devmod.load, "k/f.devmod")
    path.write_text(json.dumps(good))
    assert devmod.load("k/f.devmod").kind == "toy"


@pytest.mark.row("R46")
def test_a_key_and_an_identity_are_two_signers(sign: Sign) -> None:
    signed("k/f.devmod")
    both = rule(more=', "acme.pub"') + "threshold = 2\n"
    policy(both)
    assert "the rule needs 2 of 'me@acme.example', 'acme.pub'" in refusal(devmod.load, "k/f.devmod")
    assert sign("me@acme.example") == (0, "")
    assert devmod.load("k/f.devmod").kind == "toy"


@pytest.mark.row("R46")
def test_the_public_root_of_the_wheel_refuses_a_private_signature(
    sign: Sign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root is read without a request: there is no network in these tests."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert sign("me@acme.example") == (0, "")
    policy(rule(config=""))
    assert "not signed by a key that counts" in refusal(devmod.load, "k/f.devmod")


def test_a_service_that_cannot_be_reached_an_invalid_token_and_an_invalid_configuration(
    sign: Sign, services: str
) -> None:
    config = Path(services).read_text()
    Path("down.json").write_text(
        config.replace(
            json.loads(config)["signingConfig"]["caUrls"][0]["url"], "http://127.0.0.1:9"
        )
    )
    for status, err in (sign("me@acme.example", config="down.json"), sign("", given="x")):
        assert (status, err.startswith("devmod: error: sigstore cannot sign: ")) == (1, True)
    assert sign("me@acme.example") == (0, "")
    Path("config.json").write_text("{}")
    assert "sigstore's configuration '" in refusal(devmod.load, "k/f.devmod")


def test_without_sigstore_keys_count_and_errors_have_the_command_that_installs_it(
    sign: Sign, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed("k/f.devmod")
    assert sign("me@acme.example") == (0, "")
    for each in ("sigstore.verify", "sigstore.dsse"):
        monkeypatch.setitem(sys.modules, each, None)
    text = 'sigstore is not installed. To add it: pip install "devmod-trust[sigstore]"'
    assert refusal(devmod.load, "k/f.devmod").endswith(
        f"the rule needs 1 of 'me@acme.example'. {text}"
    )
    assert sign("me@acme.example") == (1, f"devmod: error: {text}\n")
    policy(rule(more=', "acme.pub"'))
    assert devmod.load("k/f.devmod").kind == "toy"
