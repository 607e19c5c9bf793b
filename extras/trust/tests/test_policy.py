"""What a policy takes and refuses, asked as core does."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from signing import ask, bundle, key, policy, refusal, rule, signed

from devmod_trust._policy import normal_url, read_policy

FILE = bundle()


def place(path: str) -> str:
    return os.path.realpath(path)


# -- sources


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("k/*.devmod", "k/f.devmod"),
        ("./k/f.devmod", "k/f.devmod"),
        ("../{folder}/k/f.devmod", "k/f.devmod"),
        ("{path}/k/f.devmod", "k/f.devmod"),
        ("**", "k/f.devmod"),
        ("**", "f.devmod"),
        ("k/**/f.devmod", "k/f.devmod"),
        ("k/**/f.devmod", "k/a/b/f.devmod"),
        ("k/*/f.devmod", "k/a/f.devmod"),
        ("/**", "k/f.devmod"),
        ("to_k/f.devmod", "k/f.devmod"),
        ("to_f", "k/f.devmod"),
        ("a[1]?.devmod", "a[1]?.devmod"),
        ("memory", "memory"),
        ("./memory", "{path}/memory"),
        ("https://acme.example/**", "https://acme.example/k/f.devmod"),
        ("https://acme.example/*/f.devmod", "https://acme.example/k/f.devmod"),
        ("https://acme.example", "https://acme.example/"),
        ("HTTPS://Acme.Example:443/%7ek/f%c3%bc.devmod", "https://acme.example/~k/fü.devmod"),
        ("http://127.0.0.1:8000/*", "http://127.0.0.1:8000/f.devmod"),
        ("s3://bucket/**", "s3://bucket/k/f.devmod"),
        ("package:acme_kernels", "{path}/site/acme_kernels/f.devmod"),
        ("package:acme_kernels.gpu", "{path}/site/acme_kernels/f.devmod"),
        ("site/acme_kernels/*", "{path}/site/acme_kernels/f.devmod"),
    ],
)
def test_a_source_takes_a_place(source: str, place: str, folder: Path) -> None:
    Path("k").mkdir()
    Path("to_k").symlink_to("k")
    Path("to_f").symlink_to("k/f.devmod")
    names = {"folder": folder.name, "path": str(folder)}
    policy(rule(f'["not this", "{source.format(**names)}"]'))
    package = (
        source.removeprefix("package:")
        if source.startswith("package:")
        else "acme_kernels"
        if "site" in place
        else ""
    )
    place = place.format(**names)
    assert ask(
        place if ":" in place or place == "memory" else str(folder / place),
        signed("x"),
        package=package,
    ) == [("acme.pub",)]


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("k/*.devmod", "k/a/f.devmod"),
        ("k/*.devmod", "k/f.devmod.old"),
        ("k/*.devmod", "kk/f.devmod"),
        ("k/**", "k"),
        ("k/**", "kk/f.devmod"),
        ("k/f.devmod", "k/F.devmod"),
        ("k/f.devmod", "k/fxdevmod"),
        ("k/f.devmod", "k/f.devmod/g"),
        ("k/*", "memory"),
        ("**", "https://acme.example/f.devmod"),
        ("**", "memory"),
        ("memory", "{path}/memory"),
        ("*", "{path}/../f.devmod"),
        ("package:acme_kernels", "{path}/acme_kernels/f.devmod"),
        ("https://acme.example/*", "https://acme.example/k/f.devmod"),
        ("https://acme.example/**", "http://acme.example/f"),
        ("https://acme.example/**", "https://acme.example.evil.example/f"),
        ("https://acme.example/**", "https://acme.example:8443/f"),
        ("https://acme.example/**", "https://acme.example@evil.example/f"),
        ("https://acme.example/**", "https://evil.example/https://acme.example/f"),
        ("https://acme.example/**", "https://acme.example\\\\@evil.example/f"),
        ("https://acme.example/**", "https://acme.example./f"),
        ("https://acme.example/**", "https://acmе.example/f"),
        ("https://acme.example/**", "https://acme。example/f"),
        ("https://acme.example/k/**", "https://acme.example/k/../f"),
        ("https://acme.example/k/**", "https://acme.example/k/%2e%2E/f"),
        ("https://acme.example/k/**", "https://acme.example/k/.%2e/f"),
        ("https://acme.example/k/**", "https://acme.example/k/..%2ff"),
        ("https://acme.example/k/**", "https://acme.example/k/..%5cf"),
        ("https://acme.example/k/**", "https://acme.example/k%2ff"),
        ("https://acme.example/k/*", "https://acme.example/k/f%"),
        ("https://acme.example/k/*", "https://acme.example/k/f?x"),
        ("https://acme.example/k/*", "https://acme.example/k/f#x"),
        ("https://acme.example/k/*", "https://acme.example/k/f\tg"),
        ("https://acme.example/%66", "https://acme.example/%2566"),
        ("https://acme.example/ü", "https://acme.example/u\u0308"),
        ("file:///**", "{path}/f.devmod"),
    ],
)
def test_a_source_does_not_take_a_place_that_looks_like_it(
    source: str, place: str, folder: Path
) -> None:
    name = policy(rule(f'["{source}"]'))
    place = place.format(path=folder).replace("\\\\", "\\")
    place = place if ":" in place or place == "memory" or place[0] == "/" else str(folder / place)
    text = f"is refused by {name!r}: no rule has it as a source. Add it to the source of a rule"
    signature = signed("x")
    assert refusal(ask, place, signature).endswith(text)
    if not place.startswith("http"):
        text = f"{place!r} of the package 'other_kernels' {text}"
        assert refusal(ask, place, signature, package="other_kernels") == text


def test_a_folder_with_a_star_in_its_name_is_no_wildcard(folder: Path) -> None:
    for name in ("a*", "ab"):
        Path(name).mkdir()
    signature = signed("x")
    key()
    os.replace("acme.pub", "a*/acme.pub")
    policy(rule(), path="a*/trust.toml")
    Path("acme.pem").unlink()
    assert ask(str(folder / "a*/k/f.devmod"), signature, path="a*/trust.toml") == [("acme.pub",)]
    assert "no rule has it" in refusal(
        ask, str(folder / "ab/k/f.devmod"), signature, path="a*/trust.toml"
    )


def test_links_of_a_source_are_resolved_at_each_question(folder: Path) -> None:
    for name in ("one", "two"):
        Path(name).mkdir()
    Path("current").symlink_to("one")
    policy(rule('["current/*"]'))
    signature = signed("x")
    assert ask(place("one/f"), signature)
    assert refusal(ask, place("two/f"), signature)
    Path("current").unlink()
    Path("current").symlink_to("two")
    assert ask(place("two/f"), signature)
    assert refusal(ask, place("one/f"), signature)


@pytest.mark.parametrize(
    "text",
    [
        "https",
        "https:/a/b",
        "//a/b",
        "https://a b/c",
        "https://a:x/",
        "https://a:/b",
        "https://[::1/",
        "1s://a/",
    ],
)
def test_what_is_no_url(text: str) -> None:
    assert normal_url(text) == ""


def test_urls_of_other_forms() -> None:
    assert normal_url("HTTP://[2001:DB8::1]:080/") == "http://[2001:db8::1]:80/"
    assert normal_url("http://A:80") == "http://a/"
    assert normal_url("https://a:80/%41%2b") == "https://a:80/A%2B"


# -- rules


def test_each_rule_that_matches_must_be_met(folder: Path) -> None:
    key("bob")
    policy(rule(), rule('["k/f.devmod"]', keys='["bob.pub"]'))
    assert ask(place("k/f.devmod"), signed("x", "acme", "bob")) == [("acme.pub",), ("bob.pub",)]
    assert ask(place("k/g.devmod"), signed("x")) == [("acme.pub",)]
    again = "Get it and its .sig again from who publishes acme/f"
    assert refusal(ask, place("k/f.devmod"), signed("x")) == (
        f"'{folder}/k/f.devmod' is refused by rule 2 of '{folder}/trust.toml' (acme/f): it is not signed by a key that counts, and the rule "
        f"needs 1 of 'bob.pub'. {again}"
    )


def test_several_policies_must_each_be_met() -> None:
    from devmod_trust import devmod_verify

    key("bob")
    both = policy(), policy(rule(keys='["bob.pub"]'), path="other.toml")
    head = FILE[: 48 + int.from_bytes(FILE[12:16], "little")]
    for keys, taken in ((("acme", "bob"), True), (("acme",), False), (("bob",), False)):
        signature = signed("x", *keys)
        for policies in (both, both[::-1]):
            if taken:
                devmod_verify(place("k/f.devmod"), "", head, -1, signature, policies)
            else:
                refusal(devmod_verify, place("k/f.devmod"), "", head, -1, signature, policies)
    devmod_verify(place("k/f.devmod"), "", head, -1, None, ())


def test_the_threshold_counts_keys_and_the_lowest_version_is_taken() -> None:
    for name in ("bob", "eve"):
        key(name)
    policy(rule(keys='["acme.pub", "bob.pub", "eve.pub"]', more="threshold = 2\nversion = 3"))
    f = place("k/f.devmod")
    assert ask(f, signed("x", "bob", "eve")) == [("bob.pub", "eve.pub")]
    assert ask(f, signed("x", "acme", "bob", "eve", version=4)) == [
        ("acme.pub", "bob.pub", "eve.pub")
    ]
    assert (
        "it is signed by 'eve.pub' alone, and the rule needs 2 of 'acme.pub', 'bob.pub', 'eve.pub'"
        in refusal(ask, f, signed("x", "eve"))
    )
    assert "it is signed as version 2, and the lowest is 3. Get a newer one" in refusal(
        ask, f, signed("x", "bob", "eve", version=2)
    )


def test_a_key_counts_until_a_time() -> None:
    key("old")
    past, future = (datetime.now(UTC) + timedelta(days=days) for days in (-1, 1))
    keys = f'[{{ file = "old.pub", until = {past.isoformat()} }}, {{ until = {future.isoformat()}, file = "acme.pub" }}]'
    name = policy(rule(keys=keys))
    f = place("k/f.devmod")
    assert ask(f, signed("x", "old", "acme")) == [("acme.pub",)]
    assert refusal(ask, f, signed("x", "old")) == (
        f"{f!r} is refused by rule 1 of {name!r} (acme/f): it is not signed by a key that counts, and the rule needs 1 of 'old.pub', "
        f"'acme.pub'; 'old.pub' has, and counts no more since {past}. Sign it again with a key that counts"
    )
    for until, counts in (
        ("2999-01-01", True),
        ("1999-01-01", False),
        ("2999-01-01T00:00:00+02:00", True),
    ):
        policy(rule(keys=f'[{{ file = "old.pub", until = {until} }}]'))
        if counts:
            assert ask(f, signed("x", "old"))
        else:
            refusal(ask, f, signed("x", "old"))


def test_payloads_without_an_index_are_refused_unless_the_policy_allows_them() -> None:
    for top in ("", 'raw = "refuse"'):
        name = policy(top, rule())
        assert refusal(ask, "memory", None, b"") == (
            f"'memory' is refused by {name!r}: it has no index that could be signed. Save it in a "
            '.devmod file and sign that, or add the line raw = "allow" at the top of the policy'
        )
        assert ask(place("k/f.devmod"), signed("x"))
    policy('raw = "allow"', rule())
    assert ask("memory", None, b"") == []
    assert "it has no signature" in refusal(ask, place("k/f.devmod"), None)


def test_an_unsigned_file() -> None:
    name = policy(rule('["k/*", "memory", "https://acme.example/*"]'))
    for where, todo in (
        ("memory", "Give the content of its .sig as signature="),
        (place("k/f.devmod"), "Expected is 'f.devmod.sig' beside it; `devmod sign` writes it"),
        ("https://acme.example/f", "Expected is 'f.sig' beside it; `devmod sign` writes it"),
    ):
        text = f"{where!r} is refused by rule 1 of {name!r} (acme/f): it has no signature; expected is one by 'acme.pub'. {todo}"
        assert refusal(ask, where, None) == text


# -- reading


def test_a_policy_is_read_again_if_it_or_a_key_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    policy("# a comment", rule(more="# another"))
    signature, f = signed("x"), place("k/f.devmod")
    first = read_policy("trust.toml")
    assert ask(f, signature)
    assert read_policy("trust.toml") is first
    key("bob")
    os.replace("bob.pub", "acme.pub")
    assert read_policy("trust.toml") is not first
    refusal(ask, f, signature)
    Path("acme.pub").unlink()
    assert "keys: 'acme.pub' cannot be read: No such file or directory" in refusal(
        ask, f, signature
    )
    Path("acme.pem").unlink()
    policy()
    assert ask(f, signed("x"))
    Path("trust.toml").write_text("")
    assert "it has no [[rule]]" in refusal(ask, f, signature)


EXPECTED = 'expected "FILE", { file = "FILE" } or { issuer = "URL", identity = "NAME" }'
INVALID = {
    "it has no [[rule]]": 'raw = "refuse"',
    "it has the unknown key 'rules'. Did you mean 'rule'?": "rules = 1",
    "it has the unknown key 'keys'. Its keys: rule, raw": 'keys = ["acme.pub"]',
    'raw: expected "refuse" or "allow", got True': "raw = true",
    'raw: expected "refuse" or "allow", got []': "raw = []",
    "rule 1: raw belongs at the top of the policy, before the first [[rule]]": rule(
        more='raw = "allow"'
    ),
    "Expected '=' after a key in a key/value pair (at line 1, column 3)": "a b",
    "rule 1: it has no name": '[[rule]]\nsource = ["x"]\nkeys = ["acme.pub"]',
    "rule 2: it has no keys": rule() + '[[rule]]\nsource = ["x"]\nname = "acme/f"',
    "rule 1: expected a table, [[rule]]": "rule = [1]",
    "rule 1: it has the unknown key 'treshold'. Did you mean 'threshold'?": rule(
        more="treshold = 1"
    ),
    "rule 1: source: expected a list that is not empty, got []": rule("[]"),
    "rule 1: source: expected a list that is not empty, got 'k'": rule('"k"'),
    "rule 1: source: expected texts, got 1": rule("[1]"),
    "rule 1: source: expected texts, got ''": rule('[""]'),
    "rule 1: source: 'k/' names no file: '**' takes the files in a folder, and no '..' is after a wildcard": rule(
        '["k/"]'
    ),
    "rule 1: source: 'k/*/../f' names no file: '**' takes the files in a folder, and no '..' is after a wildcard": rule(
        '["k/*/../f"]'
    ),
    "rule 1: source: expected package: and the name of a package that can be imported, got 'package:a-b'": rule(
        '["package:a-b"]'
    ),
    "rule 1: source: expected a URL without query, credentials, '..', encoded '/' and wildcards of hosts, "
    "got 'https://*.acme.example/**'": rule('["https://*.acme.example/**"]'),
    "rule 1: name: expected parts of a-z, 0-9, '.', '_' and '-' with '/' between them, such as acme/softmax, got 'acme/*'": rule(
        name="acme/*"
    ),
    "rule 1: keys: expected a list that is not empty, got []": rule(keys="[]"),
    f"rule 1: keys: {EXPECTED}, got 1": rule(keys="[1]"),
    f"rule 1: keys: {EXPECTED}, got {{'issuer': 'a', 'identity': 'b', 'file': 'acme.pub'}}": rule(
        keys='[{ issuer = "a", identity = "b", file = "acme.pub" }]'
    ),
    f"rule 1: keys: {EXPECTED}, got {{'issuer': 'a', 'identity': 5}}": rule(
        keys='[{ issuer = "a", identity = 5 }]'
    ),
    f"rule 1: keys: {EXPECTED}, got {{'issuer': '', 'identity': 'b'}}": rule(
        keys='[{ issuer = "", identity = "b" }]'
    ),
    "rule 1: keys: 'a' needs an identity": rule(keys='[{ issuer = "a" }]'),
    "rule 1: keys: it has the unknown key 'subject'. Its keys: issuer, identity, config, until": rule(
        keys='[{ issuer = "a", identity = "b", subject = "c" }]'
    ),
    "rule 1: keys: it has the unknown key 'untill'. Did you mean 'until'?": rule(
        keys='[{ file = "acme.pub", untill = 2027-01-01 }]'
    ),
    "rule 1: keys: until: expected a date, or a time with its offset such as 2027-01-31T12:00:00Z, got 2027-01-01 00:00:00": rule(
        keys='[{ file = "acme.pub", until = 2027-01-01T00:00:00 }]'
    ),
    "rule 1: keys: until: expected a date, or a time with its offset such as 2027-01-31T12:00:00Z, got 5": rule(
        keys='[{ file = "acme.pub", until = 5 }]'
    ),
    "rule 1: keys: 'none.pub' cannot be read: No such file or directory": rule(keys='["none.pub"]'),
    "rule 1: keys: '{folder}/acme.pem' is a private key, which belongs to its owner alone: name the file with its public key": rule(
        keys='["acme.pem"]'
    ),
    "rule 1: keys: 'acme.pub' and 'copy.pub' are one key, which would count twice": rule(
        keys='["acme.pub", "copy.pub"]', more="threshold = 2"
    ),
    "rule 1: threshold: expected a number from 1 to 1, the number of keys, got 2": rule(
        more="threshold = 2"
    ),
    "rule 1: threshold: expected a number from 1 to 1, the number of keys, got 0": rule(
        more="threshold = 0"
    ),
    "rule 1: threshold: expected a number from 1 to 1, the number of keys, got True": rule(
        more="threshold = true"
    ),
    "rule 1: version: expected a number from 0 to 9223372036854775807, got '3'": rule(
        more='version = "3"'
    ),
}


@pytest.mark.parametrize(("text", "content"), list(INVALID.items()), ids=lambda value: "")
def test_an_invalid_policy_refuses_everything(text: str, content: str, folder: Path) -> None:
    signature = signed("x")
    Path("copy.pub").write_bytes(Path("acme.pub").read_bytes())
    name = policy(content)
    for data in (FILE, b""):
        assert refusal(ask, place("k/f.devmod"), signature, data) == (
            f"the policy {name!r} is invalid, so everything is refused: {text.format(folder=folder) if '{folder}' in text else text}"
        )


def test_a_policy_that_cannot_be_read_refuses_everything(folder: Path) -> None:
    os.mkfifo("pipe")
    for path, text in (
        (
            "none.toml",
            f"'{folder}/none.toml' is invalid, so everything is refused: it cannot be read: No such file or directory",
        ),
        (
            "",
            "'' is invalid, so everything is refused: it cannot be read: No such file or directory",
        ),
        (
            ".",
            f"'{folder}' is invalid, so everything is refused: it cannot be read: Is a directory",
        ),
        (
            "pipe",
            f"'{folder}/pipe' is invalid, so everything is refused: '{folder}/pipe' is a pipe (FIFO); expected a regular file",
        ),
    ):
        assert refusal(ask, "memory", b"", path=path) == f"the policy {text}"
    Path("trust.toml").write_bytes(b"a = " + b"[" * 20_000)
    assert "is invalid, so everything is refused: " in refusal(ask, "memory", b"")
