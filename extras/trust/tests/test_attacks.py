"""Each attack on a file under a policy is refused, through `devmod.load` and the other ways to open
one (R46).
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import shutil
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import msgpack
import pytest
from alone import hide
from command_line import printed_by
from distributions import install
from each_case import some
from forked import python
from http_server import Handler, Server, http_server
from signing import bundle, envelope, key, policy, refusal, rule, signed
from stored import Raw, blobs_of, head_of, pages_of, with_pages

import devmod
from devmod._plugins import discovery, registry
from devmod.backend import create_own
from devmod_trust import _policy

pytestmark = pytest.mark.row("R46")
AGAIN = "Get it and its .sig again from who publishes acme/f"
TWO = b"the first payload", b"another payload"


@pytest.fixture(autouse=True)
def trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set a policy that takes the files in k/ and bytes in memory with the name acme/f and a
    signature by acme.pub. Return its path.
    """
    path = policy(rule('["k/*.devmod", "memory"]', more="version = 2"))
    monkeypatch.setenv("DEVMOD_TRUST", path)
    return path


def payloads(module: devmod.Module) -> list[bytes]:
    return [each.save_to_bytes() for each in (module.imports or (module,))]  # type: ignore[attr-defined]


def refused(path: str = "k/f.devmod") -> str:
    """Return why a file is refused, behind its place and the rule."""
    text = refusal(devmod.load, path)
    head = f"{os.path.realpath(path)!r} is refused by rule 1 of {os.environ['DEVMOD_TRUST']!r} (acme/f): "
    assert text.startswith(head)
    signature = Path(f"{path}.sig").read_bytes() if Path(f"{path}.sig").exists() else None
    assert refusal(devmod.loads, Path(path).read_bytes(), signature=signature)
    return text.removeprefix(head)


def write(signature: bytes) -> None:
    Path("k/f.devmod.sig").write_bytes(signature)


# -- innocents


def test_a_signed_file_is_used_in_each_way() -> None:
    signature = signed("k/f.devmod", data=bundle(*TWO))
    data = Path("k/f.devmod").read_bytes()
    Path("link.devmod").symlink_to("k/f.devmod")
    shutil.copy("k/f.devmod.sig", "link.devmod.sig")
    with open("k/f.devmod", "rb") as file:
        ways = (
            devmod.load("k/f.devmod"),
            devmod.load("link.devmod"),
            devmod.loads(data, signature=signature),
            devmod.load(file, signature=signature),
        )
        assert [payloads(each) for each in ways] == [[*TWO]] * 4
    assert devmod.dumps(ways[0]) == data
    shutil.copy("k/f.devmod", "k/g.devmod")
    shutil.copy("k/f.devmod.sig", "k/g.devmod.sig")
    assert payloads(devmod.load("k/g.devmod")) == [*TWO]


# -- links


@pytest.fixture(name="two_places")
def two_places_fixture(folder: Path) -> None:
    """Set a policy with a strict rule for safe/ and another one for other/, each with its file. Who
    attacks can write to safe/ alone.
    """
    key("bob")
    strict = rule(
        '["safe/**", "exact/f.devmod"]',
        keys='["acme.pub", "bob.pub"]',
        more="threshold = 2\nversion = 3",
    )
    signed("other/g.devmod", "carol", name="carol/g", version=1)
    policy(strict, rule('["other/*", "lax/*"]', "carol/g", '["carol.pub"]'))
    for name in ("safe", "exact"):
        signed(f"{name}/f.devmod", "acme", "bob")


def swap(path: str, target: str = "../other/g.devmod") -> None:
    """Put a link in the place of a file, and the signatures of the other file beside it."""
    Path(path).unlink(missing_ok=True)
    Path(path).symlink_to(target)
    shutil.copy("other/g.devmod.sig", f"{path}.sig")


@pytest.mark.parametrize(
    "path",
    [
        "safe/f.devmod",
        "exact/f.devmod",
        "alias/safe/f.devmod",
        "safe/in/../f.devmod",
        "to_f",
        "safe/sub/g.devmod",
    ],
)
@pytest.mark.usefixtures("two_places")
def test_a_link_in_a_place_does_not_choose_the_rule_of_another_place(
    path: str, folder: Path
) -> None:
    Path("alias").symlink_to(folder)  # a link of the program itself, as is to_f
    Path("safe/in").mkdir()
    Path("safe/sub").symlink_to("../other")
    swap("safe/f.devmod")
    swap("exact/f.devmod")
    swap("to_f", "safe/f.devmod")
    text = refusal(devmod.load, path)
    assert text.startswith(
        f"'{folder}/{path}' ('{folder}/other/g.devmod') is refused by rule 1 of "
    )
    assert (
        "it is not signed by a key that counts, and the rule needs 2 of 'acme.pub', 'bob.pub'"
        in text
    )


@pytest.mark.usefixtures("two_places")
def test_the_rules_of_the_place_with_the_link_and_of_its_target_both_apply(folder: Path) -> None:
    Path("lax").mkdir()
    Path("lax/f.devmod").symlink_to("../safe/f.devmod")
    for signature, number in (("safe/f", 2), ("other/g", 1)):
        shutil.copy(f"{signature}.devmod.sig", "lax/f.devmod.sig")
        assert f" ('{folder}/safe/f.devmod') is refused by rule {number} of " in refusal(
            devmod.load, "lax/f.devmod"
        )
    Path("safe/in").mkdir()
    Path("up").symlink_to("safe/in")  # the system resolves the link before the two dots
    with pytest.raises(FileNotFoundError):
        devmod.load("up/../g.devmod")
    swap("safe/g.devmod")
    assert "is refused by rule 1 of " in refusal(devmod.load, "up/../g.devmod")
    # Package managers put links to a store, for which there is no rule.
    os.replace("safe/f.devmod", "stored")
    Path("safe/f.devmod").symlink_to("../stored")
    assert payloads(devmod.load("safe/f.devmod")) == [b"the payload"]
    assert "no rule has it as a source" in refusal(devmod.load, "stored")


@pytest.mark.usefixtures("two_places")
def test_a_link_that_is_gone_before_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    os.rename("exact/f.devmod", "exact/real")
    swap("exact/f.devmod")
    real = _policy.check
    monkeypatch.setattr(
        _policy,
        "check",
        lambda *arguments: (os.replace("exact/real", "exact/f.devmod"), real(*arguments))[1],
    )  # type: ignore[func-returns-value]
    assert "is refused by rule 1 of " in refusal(devmod.load, "exact/f.devmod")


@pytest.mark.usefixtures("two_places")
def test_links_that_never_end() -> None:
    for name, target in (("safe/b", "a"), ("safe/a", "b"), ("safe/c", "c/c/c")):
        Path(name).symlink_to(target)
    for name in "abc":
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            devmod.load(f"safe/{name}")
    policy(rule('["safe/a/*", "safe/c/*"]'))
    assert "no rule has it" in refusal(devmod.load, "safe/f.devmod")


# -- the file


def test_payloads_that_are_swapped() -> None:
    """Both files are signed. The payloads have the same size and other digests."""
    one, two = bundle(b"the 1st payload"), bundle(b"the 2nd payload")
    signed("k/f.devmod", data=one)
    signed("k/g.devmod", data=two)
    start = len(one) - len(blobs_of(one))
    Path("k/f.devmod").write_bytes(one[:start] + two[start:])
    Path("k/g.devmod").write_bytes(two.replace(b"2nd", b"1st"))
    for path in ("k/f.devmod", "k/g.devmod"):
        module = devmod.load(path)
        with pytest.raises(
            devmod.FormatError, match="is damaged: its SHA-256 is not the one in the index"
        ):
            payloads(module)
    with pytest.raises(devmod.FormatError, match="its SHA-256 is not the one in the index"):
        payloads(
            devmod.loads(
                Path("k/f.devmod").read_bytes(), signature=Path("k/f.devmod.sig").read_bytes()
            )
        )


def test_a_file_that_is_cut_or_extended() -> None:
    data = bundle(*TWO)
    signed("k/f.devmod", data=data)
    for changed in (data[:40], data[:47]):
        Path("k/f.devmod").write_bytes(changed)
        with pytest.raises(devmod.FormatError):
            devmod.load("k/f.devmod")
    # A file of many modules has a table for look-ups, and no reader sees its end.
    for whole in (data, bundle(*[b"%d" % number for number in range(600)])):
        signed("k/f.devmod", data=whole)
        for changed in (whole[:-1], whole + b"\0", whole + b"x" * 100):
            Path("k/f.devmod").write_bytes(changed)
            assert "'acme.pub' has signed another file: acme/f, version 3" in refusal(
                devmod.load, "k/f.devmod"
            )


def test_no_payload_is_read_when_a_file_is_opened() -> None:
    data = bundle(*[b"%d" % number for number in range(600)])
    signature = signed("k/f.devmod", data=data)

    class File(io.BytesIO):
        most = 0

        def read(self, size: int | None = -1, /) -> bytes:
            result = super().read(size)
            self.most = max(self.most, self.tell())
            return result

    file = File(data)
    assert "memory" in Path("trust.toml").read_text()
    module = devmod.load(file, signature=signature)
    head = 48 + int.from_bytes(data[12:16], "little")
    assert file.most <= max(head, 4096) < len(data) - 16_000
    assert payloads(module)[:2] == [b"0", b"1"]


def test_each_byte_of_a_file() -> None:
    """Every changed byte is noticed: those of the header and the head by the signature, the others
    by digests or as padding.
    """
    data = bundle(*TWO)
    signature = signed("k/f.devmod", data=data)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises((devmod.TrustError, devmod.FormatError)):
            payloads(devmod.loads(bytes(changed), signature=signature))
    (page,) = pages_of(data)
    forged = with_pages(data, head_of(data), [msgpack.packb(page).replace(b"toy", b"toz")])
    assert len(forged) == len(data)
    assert "'acme.pub' has signed another file: acme/f, version 3" in refusal(
        devmod.loads, forged, signature=signature
    )


def test_the_number_in_the_header() -> None:
    data = signed("k/f.devmod") and Path("k/f.devmod").read_bytes()
    for number in (0, 1, 2, 3, 4, 5, 7, 255):
        Path("k/f.devmod").write_bytes(data[:8] + bytes((number,)) + data[9:])
        with pytest.raises(devmod.FormatError):
            devmod.load("k/f.devmod")


def library(word: bytes = b"good") -> bytes:
    """Return a file of several pages."""
    modules = [
        Raw(
            "toy",
            b"%s %d" % (word, number),
            functions=(f"f{number:03}_{'a long name ' * 40}", f"z{number}"),
        )
        for number in range(100)
    ]
    return devmod.dumps(devmod.bundle(*modules))


@pytest.mark.row("R46", "R50")
def test_pages_that_are_swapped_or_changed() -> None:
    """The signature covers the head, which has the digests of pages. A page is compared with its
    own before anything of it is used.
    """
    good, bad = library(), library(b"evil")
    signature = signed("k/f.devmod", data=good)
    head, pages = head_of(good), pages_of(good)
    assert [len(pages), len(good)] == [2, len(bad)]
    damaged = "is damaged: the SHA-256 of a page of its index is not the one in its head. Get the file again"
    at = [48 + int.from_bytes(good[12:16], "little")]
    for _, size, *_ in head["pages"]:
        at.append(at[-1] + size)
    for number, start in enumerate(at[:-1]):
        end = at[number + 1]
        other = bytearray(good[start:end])
        other[len(other) // 2] ^= 1
        # Of another file that somebody has signed, and with one bit flipped.
        for page in (bad[start:end], bytes(other)):
            Path("k/f.devmod").write_bytes(good[:start] + page + good[end:])
            module: Any = devmod.load("k/f.devmod")
            for act in (payloads, list, devmod.dumps):
                with pytest.raises(devmod.FormatError, match=damaged):
                    act(module)
            # A function of the other pages is found, and one of this is not.
            for each in range(0, 100, 7):
                try:
                    assert module._owners_of(f"z{each}")[0].save_to_bytes() == b"good %d" % each
                except devmod.FormatError as error:
                    refused = str(error)
                    assert damaged in refused
    # With a head for the changed pages, it is another file.
    names = [each.pop("names", None) for each in pages]
    for forged in (
        with_pages(good, head, pages),
        with_pages(good, head | {"roots": [*range(99, -1, -1)]}, pages_of(good)),
        bad,
    ):
        assert any(names)
        assert "'acme.pub' has signed another file: acme/f, version 3" in refusal(
            devmod.loads, forged, signature=signature
        )


@pytest.mark.row("R46", "R50")
def test_a_page_that_changes_in_place_is_used_as_it_was_hashed() -> None:
    good, bad = library(), library(b"evil")
    signed("k/f.devmod", data=good)
    module: Any = devmod.load("k/f.devmod")
    found = module._owners_of("z1")[0]
    assert found.entry.functions  # its own page is read
    with Path("k/f.devmod").open("r+b") as file:
        file.write(bad)
    assert found.entry.digest == hashlib.sha256(b"good 1").digest()
    assert f"z{99}" in list(module)
    with pytest.raises(devmod.FormatError, match="is damaged: its SHA-256"):
        found.save_to_bytes()
    with pytest.raises(devmod.TrustError):
        devmod.load("k/f.devmod")


@pytest.mark.row("R41", "R46", "R50")
@pytest.mark.parametrize("has_policy", [True, False])
def test_a_page_that_changes_while_it_is_hashed(
    has_policy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_policy:
        monkeypatch.setenv("DEVMOD_TRUST", "")
    good, bad = library(), library(b"evil")
    signed("k/f.devmod", data=good)
    module: Any = devmod.load("k/f.devmod")

    def hashed(data: bytes) -> bytes:
        with Path("k/f.devmod").open("r+b") as file:
            file.write(bad)
        return hashlib.sha256(data).digest()

    monkeypatch.setattr("devmod._formats.pages.sha256_of", hashed)
    name = f"f001_{'a long name ' * 40}"
    assert module._owners_of(name)[0].entry.digest == hashlib.sha256(b"good 1").digest()


# -- the signature


def test_the_signature_of_another_file() -> None:
    other = signed("k/g.devmod", data=bundle(b"another"))
    signed("k/f.devmod")
    write(other)
    assert refused() == f"'acme.pub' has signed another file: acme/f, version 3. {AGAIN}"


def test_another_file_of_the_same_signer_under_this_path() -> None:
    signed("k/f.devmod", name="acme/g")
    assert (
        refused()
        == "it is signed as 'acme/g'. Put each file where the rule for its name has it as a source"
    )


def test_an_older_version() -> None:
    signed("k/f.devmod", version=1)
    assert refused() == "it is signed as version 1, and the lowest is 2. Get a newer one"


def test_the_key_of_a_stranger_in_the_envelope() -> None:
    eve = key("eve")
    public = Path("eve.pub").read_text()
    signed("k/f.devmod")
    data = Path("k/f.devmod").read_bytes()
    extra = {
        "publicKey": public,
        "cert": public,
        "x5c": [public],
        "jwk": {"kty": "OKP", "x": b64encode(eve.public.data).decode()},
    }
    write(envelope(data, (key().public.keyid, eve, extra)))
    assert (
        refused()
        == f"it is not signed by a key that counts, and the rule needs 1 of 'acme.pub'. {AGAIN}"
    )


def test_two_keys_are_needed_and_one_signature_is_invalid(trusted: str) -> None:
    bob = key("bob")
    policy(rule(keys='["acme.pub", "bob.pub"]', more="threshold = 2"))
    signed("k/f.devmod", "acme", "bob")
    assert payloads(devmod.load("k/f.devmod"))
    data, acme = Path("k/f.devmod").read_bytes(), key()
    text = (
        f"it is signed by 'acme.pub' alone, and the rule needs 2 of 'acme.pub', 'bob.pub'. {AGAIN}"
    )
    for others in (
        [(bob.public.keyid, acme, {})],  # one key twice, the second time by the other's name
        [("", acme, {}), (acme.public.keyid, acme, {}), ("x", acme, {})],
        [(bob.public.keyid, bytes(64), {})],
        [(bob.public.keyid, bob.sign(b"another message"), {})],
        [],
    ):
        write(envelope(data, (acme.public.keyid, acme, {}), *others))
        assert refused() == text
    write(
        envelope(
            data, ("", bytes(64), {}), (acme.public.keyid, bob, {}), (bob.public.keyid, acme, {})
        )
    )
    assert payloads(
        devmod.load("k/f.devmod")
    )  # a keyid is a hint, and an invalid signature takes nothing away


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "HS256", "ES256", "EdDSA", "rsassa-pss-sha256"]
)
def test_the_names_of_algorithms(algorithm: str) -> None:
    signed("k/f.devmod")
    data, acme = Path("k/f.devmod").read_bytes(), key().public
    names = {"alg": algorithm, "algorithm": algorithm, "scheme": algorithm, "keytype": algorithm}
    for sig in (
        b"\0",
        bytes(64),
        hmac.digest(acme.data, data, "sha256"),
        hmac.digest(Path("acme.pub").read_bytes(), data, "sha256"),
    ):
        write(envelope(data, (acme.keyid, sig, names)))
        assert (
            refused()
            == f"it is not signed by a key that counts, and the rule needs 1 of 'acme.pub'. {AGAIN}"
        )
    write(envelope(data, (acme.keyid, key(), names)))
    assert payloads(devmod.load("k/f.devmod"))  # the key decides


@pytest.mark.parametrize(
    "signature", [b"", b" " * (5 << 20), b"[" * (1 << 20)], ids=["empty", "huge", "nested"]
)
def test_huge_and_nested_envelopes(signature: bytes) -> None:
    signed("k/f.devmod")
    write(signature)
    text = refused()
    assert (
        text.startswith("its file of signatures is invalid: it "),
        text.endswith(f". {AGAIN}"),
    ) == (True, True)


def test_a_payload_is_not_parsed_before_its_signature_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signed("k/f.devmod")
    monkeypatch.setattr(
        _policy, "read_statement", lambda payload: pytest.fail(f"parsed {payload!r}")
    )
    write(envelope(Path("k/f.devmod").read_bytes(), (key().public.keyid, key("eve"), {})))
    assert refused().startswith("it is not signed by a key that counts")


@pytest.mark.parametrize(
    "change",
    [
        lambda payload: payload.update(predicateType="https://slsa.dev/provenance/v0.2"),
        lambda payload: payload["predicate"]["buildDefinition"].update(buildType="urn:another"),
        lambda payload: payload["subject"][0].update(name="acme/f "),
        lambda payload: payload["predicate"]["buildDefinition"]["externalParameters"].update(
            name="аcme/f"
        ),
    ],
)
def test_other_statements_by_the_key(change: Any) -> None:
    """A key that signs files may sign other things, or by another tool."""
    signed("k/f.devmod")
    write(envelope(Path("k/f.devmod").read_bytes(), ("", key(), {}), change=change))
    assert refused().startswith("what 'acme.pub' has signed is invalid: its payload ")


def test_a_signature_for_another_type_of_payload() -> None:
    """DSSE signs the type too: the signature of a text is none of a statement."""
    data = signed("k/f.devmod") and Path("k/f.devmod").read_bytes()
    found = json.loads(envelope(data, ("", b"x", {})))
    payload = found["payload"]
    raw = b64decode(payload)
    for message in (raw, payload.encode(), b"DSSEv1 10 text/plain%d %d " % (10, len(raw)) + raw):
        write(envelope(data, ("", key().sign(message), {})))
        assert refused().startswith("it is not signed by a key that counts")


# -- between the check and the use


def test_a_file_that_is_replaced_after_the_check(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """The bytes that were checked are used, by whatever the path is replaced meanwhile."""
    signed("k/f.devmod", data=bundle(b"the payload"))
    Path("evil.devmod").write_bytes(bundle(b"evil!!!!!!!"))
    Path("to_f.devmod").symlink_to("k/f.devmod")
    shutil.copy("k/f.devmod.sig", "to_f.devmod.sig")

    def change() -> None:
        Path("to_f.devmod").unlink()
        Path("to_f.devmod").symlink_to("evil.devmod")
        shutil.copy("evil.devmod", "new.devmod")
        os.replace("new.devmod", "k/f.devmod")

    real = _policy.check
    monkeypatch.setattr(_policy, "check", lambda *arguments: (real(*arguments), change())[0])
    assert payloads(devmod.load("to_f.devmod")) == [b"the payload"]
    assert (
        Path("to_f.devmod").read_bytes()
        == Path("k/f.devmod").read_bytes()
        == bundle(b"evil!!!!!!!")
    )
    monkeypatch.setattr(_policy, "check", real)
    assert "no rule has it as a source" in refusal(devmod.load, "to_f.devmod")


def test_a_file_that_is_rewritten_in_place() -> None:
    data, evil = bundle(b"the payload"), bundle(b"evil!!!!!!!")
    signed("k/f.devmod", data=data)
    module, used = devmod.load("k/f.devmod"), devmod.load("k/f.devmod")
    assert payloads(used) == [b"the payload"]
    assert len(data) == len(evil)
    with open("k/f.devmod", "r+b") as file:
        file.write(evil)
    with pytest.raises(devmod.FormatError, match="its SHA-256 is not the one in the index"):
        payloads(module)


# -- URLs


@pytest.fixture
def server(folder: Path) -> Any:
    with http_server() as server:
        policy(rule(f'["{server.url("k/*")}"]'))
        yield server


def test_a_file_at_a_url_and_a_planted_cache(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.environ["DEVMOD_TRUST"]
    url, good, evil = server.url("k/f.devmod"), bundle(b"the payload"), bundle(b"evil!!!!!!!")
    server.files["k/f.devmod"] = evil
    monkeypatch.setenv("DEVMOD_TRUST", "")
    assert payloads(devmod.load(url)) == [b"evil!!!!!!!"]  # it is in the cache now
    monkeypatch.setenv("DEVMOD_TRUST", path)
    assert refusal(devmod.load, url).startswith(
        f"{url!r} is refused by rule 1 of {path!r} (acme/f): it has no signature"
    )
    server.files["k/f.devmod.sig"] = signed("x", data=good)
    assert "'acme.pub' has signed another file" in refusal(devmod.load, url)
    assert "'acme.pub' has signed another file" in refusal(devmod.load, url, offline=True)
    server.files["k/f.devmod"] = good
    assert (
        payloads(devmod.load(url)) == payloads(devmod.load(url, offline=True)) == [b"the payload"]
    )
    for file in some((folder / "cache").rglob("*")):
        if file.is_file():
            file.write_bytes(file.read_bytes().replace(b"the payload", b"evil!!!!!!!"))
    with pytest.raises(devmod.DevmodError):
        payloads(devmod.load(url, offline=True))


def test_a_redirect(server: Server) -> None:
    """The rule of the URL that was asked for applies, wherever the server leads."""

    def redirect(handler: Handler, _: Server) -> bool:
        if handler.path.startswith("/k/"):
            handler.status(302, Location=handler.path.replace("/k/", "/others/"))
        return handler.path.startswith("/k/")

    server.answers = [redirect] * 20
    signature = signed("x", name="acme/g")
    server.files["others/f.devmod"], server.files["others/f.devmod.sig"] = (
        Path("x").read_bytes(),
        signature,
    )
    assert "it is signed as 'acme/g'" in refusal(devmod.load, server.url("k/f.devmod"))
    assert "no rule has it as a source" in refusal(devmod.load, server.url("others/f.devmod"))


# -- packages, commands and processes


def test_the_file_of_a_package(trusted: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy(rule('["package:signed_kernels"]'))
    package = folder / "site" / "signed_kernels"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    signed("k/f.devmod")
    shutil.copy("k/f.devmod", package)
    install(
        folder / "site", "signed-kernels", groups={"devmod.bundles": {"signed": "signed_kernels"}}
    )
    monkeypatch.syspath_prepend(folder / "site")
    assert "it has no signature" in refusal(devmod.installed, "signed")
    shutil.copy("k/f.devmod.sig", package)
    assert payloads(devmod.installed("signed")) == [b"the payload"]
    assert "no rule has it as a source" in refusal(devmod.load, package / "f.devmod")
    del sys.modules["signed_kernels"]


@pytest.mark.parametrize("command", ["inspect", "view", "run", "verify", "bench", "bundle"])
def test_the_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    signed("k/f.devmod")
    os.unlink("k/f.devmod.sig")
    options = {"run": ["f0"], "bundle": ["-o", "out.devmod"], "view": ["--no-open"]}.get(
        command, []
    )
    out, err = printed_by(capsys, command, "k/f.devmod", *options, status=1)
    assert (out, "it has no signature; expected is one by 'acme.pub'" in err) == ("", True)
    assert not Path("out.devmod").exists()


@pytest.mark.parametrize("file", ["k.cl", "k.tvmimports"])
@pytest.mark.parametrize("command", ["inspect", "inspect --here", "run", "verify", "bench"])
def test_the_commands_and_payloads_without_an_index(
    command: str, file: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    info = devmod.FunctionInfo("f0", ["handle"], ["blockIdx.x", "threadIdx.x"])
    module = create_own("opencl", b"kernel void f0(global float *x) {}", "cl", {"f0": info})
    module.write_to_file("k.cl")
    Path("k.tvmimports").write_bytes(devmod.interop.tvm.dump_imports(module))
    policy('raw = "allow"', rule())
    assert "f0" in printed_by(capsys, "inspect", file).out
    policy()
    name, *options = command.split()
    out, err = printed_by(
        capsys, name, file, *options, *(["f0"] if name == "run" else []), status=1
    )
    place = f"{str(folder / file)!r}" if file == "k.cl" else "the imports blob: 'memory'"
    text = f"{place} is refused by '{folder}/trust.toml': it has no index that could be signed. "
    assert (
        f'{text}Save it in a .devmod file and sign that, or add the line raw = "allow"'
        in " ".join((out + err).split())
    )


LOAD = """
import sys, devmod
try:
    devmod.load("k/f.devmod")
except devmod.TrustError as error:
    print("refused", sys.flags.optimize)
"""


@pytest.mark.parametrize("options", [(), ("-OO",)])
def test_processes_refuse_too(options: tuple[str, ...]) -> None:
    signed("k/f.devmod")
    os.unlink("k/f.devmod.sig")
    out = python(*options, "-c", LOAD).stdout
    assert out == f"refused {len(options) and len(options[0]) - 1}\n"


def test_without_devmod_trust_everything_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    signed("k/f.devmod")
    assert payloads(devmod.load("k/f.devmod"))
    monkeypatch.setenv("DEVMOD_PLUGINS_DENY", "devmod-trust")
    assert "DEVMOD_PLUGINS_DENY excludes devmod-trust, which checks files" in refusal(
        devmod.load, "k/f.devmod"
    )
    monkeypatch.setenv("DEVMOD_PLUGINS_DENY", "")
    monkeypatch.setattr(registry, "_cache", {})
    monkeypatch.setattr(discovery, "_scan_all", discovery._scan_all)
    hide("devmod-trust")
    assert "devmod-trust, which checks files, is not installed" in refusal(
        devmod.load, "k/f.devmod"
    )


def test_a_checker_that_fails_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    signed("k/f.devmod")
    monkeypatch.setattr(_policy, "read_envelope", lambda data: 1 / 0)
    assert "failed: ZeroDivisionError: division by zero" in refusal(devmod.load, "k/f.devmod")
