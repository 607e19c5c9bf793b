"""`devmod keygen`, `devmod sign` and `devmod check`, and `devmod_trust.sign`."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pytest
from command_line import call as run
from each_case import refusal
from signing import bundle, envelope, key, policy, rule, signed

import devmod
from devmod_trust import sign
from devmod_trust._envelope import read_envelope

SIGN = ("sign", "f.devmod", "--key", "acme.pem", "--name", "acme/f", "--version")


def answers(monkeypatch: pytest.MonkeyPatch, *texts: str) -> list[str]:
    """Answer the questions of commands. Return the list of what is asked."""
    asked: list[str] = []
    left = [*texts]

    def prompt(text: str, *, hide_input: bool, err: bool, confirmation_prompt: bool = False) -> str:
        assert hide_input
        assert err
        asked.append(f"{text}, twice" if confirmation_prompt else text)
        return left.pop(0)

    monkeypatch.setattr(click, "prompt", prompt)
    return asked


def test_a_file_is_signed_and_checked(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    status, out, err = run(capsys, "keygen", "-o", "acme.pem")
    hint = key().public.keyid
    text = "acme.pem: the private key; keep it secret\nacme.pub: the public key, for the `keys` of a policy\n"
    assert (status, out, err) == (0, text, "")
    assert run(capsys, "keygen", "-o", "acme.pem") == (
        1,
        "",
        "devmod: error: acme.pub: File exists\n",
    )
    assert run(capsys, "keygen", "-o", "second.pem", "-q") == (0, "", "")
    status, out, err = run(capsys, "keygen", "-o", "-")
    no_output = "Invalid value for '-o' / '--output': '-' is standard output, to which `devmod compile` alone writes. Give the name of a file"
    assert (status, out, err.splitlines()[-1]) == (2, "", f"devmod: error: {no_output}")
    assert not Path("-").exists()
    Path("f.devmod").write_bytes(bundle())
    assert run(capsys, *SIGN, "3") == (
        0,
        "f.devmod.sig: acme/f, version 3; signed with acme.pem\n",
        "",
    )
    name = policy(rule('["*.devmod"]'))
    text = f"f.devmod.sig claims: acme/f, version 3; signed by {hint[:16]}\n"
    taken = f"taken by rule 1 of {name}: signed by acme.pub\n"
    assert run(capsys, "check", "f.devmod", "--policy", "trust.toml") == (0, text + taken, "")
    other = policy(rule('["package:acme", "https://acme.example/*"]'), path="other.toml")
    refusal = f"'{folder}/f.devmod' is refused by {other!r}: no rule has it as a source. Add it to the source of a rule"
    assert run(capsys, "check", "f.devmod", "--policy", "trust.toml", "--policy", "other.toml") == (
        1,
        text,
        f"devmod: error: {refusal}\n",
    )
    for source in ("package:acme", "https://acme.example/f.devmod"):
        assert run(capsys, "check", "f.devmod", "--policy", "other.toml", "--source", source)[
            :2
        ] == (
            0,
            text + taken.replace("trust", "other"),
        )
    assert (
        run(capsys, "check", "f.devmod", "--policy", "trust.toml", "--source", "k/f.devmod")[0] == 1
    )
    assert (
        run(capsys, "check", "f.devmod", "--policy", "trust.toml", "--source", "g.devmod")[0] == 0
    )


def test_signers_at_the_same_time_each_leave_their_signature(folder: Path) -> None:
    names = [f"key{number}" for number in range(8)]
    expected = {key(name).public.keyid for name in names}
    for number in range(8):  # without the lock a round may end well by luck
        Path(f"{number}.devmod").write_bytes(bundle())
        with ThreadPoolExecutor(8) as pool:
            list(
                pool.map(
                    lambda name, number=number: sign(
                        f"{number}.devmod", f"{name}.pem", name="acme/f", version=3
                    ),
                    names,
                )
            )
        assert {
            each.keyid
            for each in read_envelope(Path(f"{number}.devmod.sig").read_bytes()).signatures
        } == expected


def test_the_policies_of_the_environment_apply_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    signed("f.devmod")
    good, bad = policy(rule('["*"]')), policy(rule(name="acme/g", source='["*"]'), path="bad.toml")
    error = "devmod: error: nothing says whether 'f.devmod' may be used: give --policy, or set DEVMOD_TRUST. To look only for damage: devmod inspect --verify f.devmod\n"
    assert run(capsys, "check", "f.devmod")[::2] == (1, error)
    for variable, status in ((good, 0), (f"{good}{os.pathsep}{bad}", 1), (bad, 1)):
        monkeypatch.setenv("DEVMOD_TRUST", variable)
        assert run(capsys, "check", "f.devmod")[0] == status
    assert run(capsys, "check", "f.devmod", "--policy", "trust.toml")[0] == 1
    sign("f.devmod", "acme.pem", name="acme/f", version=3)  # under a policy that refuses the file


def test_check_as_json(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    signed("f.devmod", "acme")
    name = policy(rule('["f.devmod"]'))
    status, out, err = run(capsys, "check", "f.devmod", "--policy", "trust.toml", "--json")
    report = json.loads(out)
    digest = report["claims"].pop("digest")
    assert (status, err, len(digest)) == (0, "", 64)
    assert report == {
        "file": "f.devmod",
        "source": f"{folder}/f.devmod",
        "taken": True,
        "refusal": "",
        "claims": {
            "problem": "",
            "name": "acme/f",
            "version": 3,
            "size": report["claims"]["size"],
            "keys": [key().public.keyid],
        },
        "rules": [{"policy": name, "rule": 1, "keys": ["acme.pub"]}],
    }
    invalid = "invalid: its payloadType is None, and expected is 'application/vnd.in-toto+json'"
    for content, problem, text in (
        (None, "it is missing", "f.devmod is not signed: there is no f.devmod.sig"),
        (b"{}", f"it is {invalid}", f"f.devmod.sig is {invalid}"),
    ):
        if content is None:
            Path("f.devmod.sig").unlink()
        else:
            Path("f.devmod.sig").write_bytes(content)
        status, out, err = run(capsys, "check", "f.devmod", "--policy", "trust.toml", "--json")
        report = json.loads(out)
        assert (status, err, report["taken"], report["claims"], report["rules"]) == (
            1,
            "",
            False,
            {"problem": problem},
            [],
        )
        assert report["refusal"].startswith(
            f"'{folder}/f.devmod' is refused by rule 1 of {name!r} (acme/f): it"
        )
        assert run(capsys, "check", "f.devmod", "--policy", "trust.toml")[1] == f"{text}\n"


def test_the_claims_of_a_stranger_have_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = bundle()
    Path("f.devmod").write_bytes(data)
    policy(rule('["*"]'))
    Path("f.devmod.sig").write_bytes(envelope(data, ("\n::error::\x1b[31m", b"1", {})))
    _, out, err = run(capsys, "check", "f.devmod", "--policy", "trust.toml")
    assert "\x1b" not in out + err
    assert out.splitlines() == [
        r"f.devmod.sig claims: acme/f, version 3; signed by \n::error::\x1b[31m"
    ]


def test_several_sign_one_statement(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("acme", "bob", "eve"):
        key(name)
    Path("f.devmod").write_bytes(bundle())
    Path("g.devmod").write_bytes(bundle(b"another"))

    def signers() -> list[str]:
        names = {key(name).public.keyid: name for name in ("acme", "bob", "eve")}
        return [
            names[each.keyid]
            for each in read_envelope(Path("f.devmod.sig").read_bytes()).signatures
        ]

    assert run(capsys, *SIGN, "3")[0] == 0
    first = Path("f.devmod.sig").read_bytes()
    assert run(capsys, *SIGN, "3")[0] == 0
    assert Path("f.devmod.sig").read_bytes() == first  # a key signs once
    assert run(capsys, *SIGN, "3", "--key", "bob.pem", "--key", "bob.pem")[0] == 0
    assert signers() == ["acme", "bob"]
    sign("f.devmod", "eve.pem", name="acme/f", version=3, replace=True)
    assert signers() == ["acme", "bob", "eve"]
    before = Path("f.devmod.sig").read_bytes()
    status, out, err = run(capsys, *SIGN, "4")
    assert (status, out, err) == (
        1,
        "",
        "devmod: error: 'f.devmod.sig' is of another statement: the version is 3 there, and 4 now. "
        "To drop what it has: devmod sign --replace, or sign(…, replace=True)\n",
    )
    assert Path("f.devmod.sig").read_bytes() == before
    assert run(capsys, *SIGN, "4", "--replace")[0] == 0
    assert signers() == ["acme"]
    Path("f.devmod.sig").write_bytes(b"{")
    assert "'f.devmod.sig' is invalid: it is no JSON: " in run(capsys, *SIGN, "4")[2]
    assert run(capsys, "sign", "g.devmod", *SIGN[1:], "4", "--replace")[0] == 0
    assert Path("g.devmod.sig").exists()


@pytest.mark.parametrize("target", ["missing", "other", "signatures"])
def test_no_signature_is_written_through_a_link(
    target: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    signed("k/f.devmod")
    os.rename("k/f.devmod.sig", "signatures")
    Path("other").write_bytes(b"another file")
    Path("k/f.devmod.sig").symlink_to(f"../{target}")
    before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    Path("link").symlink_to("k")  # a link in the path of the file itself is followed
    for path in ("k/f.devmod", "link/f.devmod"):
        error = f"devmod: error: '{folder}/k/f.devmod.sig' is not written: '{folder}/k/f.devmod.sig' is a symbolic link\n"
        assert run(capsys, "sign", path, *SIGN[2:], "4", "--replace") == (1, "", error)
    assert {each: each.read_bytes() for each in before} == before
    Path("k/f.devmod.sig").unlink()
    assert sign("link/f.devmod", "acme.pem", name="acme/f", version=4) == "link/f.devmod.sig"
    assert Path("k/f.devmod.sig").is_file()


def test_at_most_32_sign(capsys: pytest.CaptureFixture[str]) -> None:
    signed("f.devmod", *(f"key{number}" for number in range(32)))
    key()
    error = "devmod: error: 'f.devmod.sig' would have more than 32 signatures, or more than 1048576 bytes\n"
    assert run(capsys, *SIGN, "3") == (1, "", error)


def test_passphrases_are_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("f.devmod").write_bytes(bundle())
    asked = answers(monkeypatch, "secret")
    assert run(capsys, "keygen", "-o", "acme.pem", "--encrypt")[0] == 0
    assert asked == ["Passphrase, twice"]
    asked = answers(monkeypatch, "secret", "wrong")
    assert run(capsys, *SIGN, "3")[0] == 0
    assert (
        run(capsys, *SIGN, "3")[2]
        == "devmod: error: 'acme.pem' cannot be decrypted: the passphrase is wrong, or the file is damaged\n"
    )
    assert asked == ["Passphrase of acme.pem"] * 2
    assert (
        refusal(devmod.ArgumentError, sign, "f.devmod", "acme.pem", name="acme/f", version=3)
        == "sign: 'acme.pem' is encrypted; expected is passphrase, which returns what decrypts it"
    )
    path = sign(
        "f.devmod",
        Path("acme.pem"),
        name="acme/f",
        version=3,
        passphrase=lambda key: {"acme.pem": "secret"}[key],
    )
    assert path == "f.devmod.sig"
    Path("g.devmod").write_bytes(bundle())
    asked = answers(monkeypatch, "secret")
    assert run(capsys, "sign", "g.devmod", *SIGN[1:], "3")[0] == 0  # two files
    assert len(asked) == 1


def test_what_cannot_be_signed(capsys: pytest.CaptureFixture[str]) -> None:
    key()
    data = bundle(b"one payload", b"another")
    Path("f.devmod").write_bytes(data.replace(b"one", b"two"))
    text = "the toy module with 'f0' is damaged: its SHA-256 is not the one in the index. Nothing of it was used. Get the file again from where it came"
    assert run(capsys, *SIGN, "3") == (1, "", f"devmod: error: 'f.devmod': {text}\n")
    Path("f.devmod").write_bytes(b"no bundle")
    text = "devmod: error: 'f.devmod' is not a bundle: it does not begin with the magic bytes of a .devmod file\n"
    assert run(capsys, *SIGN, "3") == (1, "", text)
    # Zeros that no digest covers.
    for at in (data.rindex(b"one payload") - 1, data.rindex(b"another") - 1):
        Path("f.devmod").write_bytes(data[:at] + b"x" + data[at + 1 :])
        for arguments in ((*SIGN, "3"), ("check", "f.devmod")):
            text = "devmod: error: 'f.devmod' is damaged: the bytes between two of its parts are not zero. Get the file again\n"
            assert run(capsys, *arguments) == (1, "", text)
    bad = Path(__file__).parents[3] / "tests" / "golden" / "bad"
    for name in ("sources-that-are-damaged.devmod", "no-zero-behind-sources.devmod"):
        Path("f.devmod").write_bytes((bad / name).read_bytes())
        expected = json.loads((bad / "expectations.json").read_text())["files"][name]["message"]
        text = f"devmod: error: {expected.replace('the bundle in memory', repr('f.devmod'))}\n"
        for arguments in ((*SIGN, "3"), ("check", "f.devmod")):
            assert run(capsys, *arguments) == (1, "", text)
    Path("f.devmod").write_bytes(data)
    names = "expected parts of a-z, 0-9, '.', '_' and '-' with '/' between them, such as acme/softmax, got"
    for version in (-1, True, 2**63, "3"):
        with pytest.raises(devmod.ArgumentError) as caught:
            sign("f.devmod", "acme.pem", name="acme/f", version=version)  # type: ignore[arg-type]
        assert (
            str(caught.value)
            == f"sign: version: expected a number from 0 to 9223372036854775807, got {version!r}"
        )
    with pytest.raises(devmod.ArgumentError, match="sign: expected the path of a private key"):
        sign("f.devmod", name="acme/f", version=3)
    assert (
        refusal(devmod.ArgumentError, sign, "f.devmod", "acme.pem", name="Acme/f", version=3)
        == f"sign: name: {names} 'Acme/f'"
    )
    assert run(capsys, *SIGN, "x")[0] == 2
    assert not Path("f.devmod.sig").exists()


def test_the_page_has_the_texts_of_errors() -> None:
    root = Path(__file__).parents[3]
    rows = re.findall(
        r"^\| `([^`]+)` \| [A-Z]",
        (root / "docs" / "trust.md").read_text().partition("## If a file")[2],
        re.MULTILINE,
    )
    code = "".join(
        (root / path).read_text()
        for path in (
            "extras/trust/src/devmod_trust/_policy.py",
            "core/src/devmod/_formats/trust.py",
        )
    )
    assert len(rows) == 10
    assert [row for row in rows if row not in code] == []
