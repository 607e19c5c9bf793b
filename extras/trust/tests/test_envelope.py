"""Files of signatures: what is in them, and what is refused."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from each_case import refusal
from stored import Raw

import devmod
from devmod.backend import loads_own
from devmod_trust._envelope import (
    Envelope,
    Signature,
    Statement,
    differences,
    make_statement,
    name_problem,
    read_envelope,
    read_statement,
)

SIGNATURES = (Signature("k", b"\xfb\xff\xfe"), Signature("", b"2", {"from": ["another", "tool"]}))
ENVELOPE = Envelope(b"{}", SIGNATURES)


def file_with_origins(**origins: devmod.Origin) -> bytes:
    modules = []
    for name, origin in origins.items():
        modules.append(Raw("toy", name.encode(), functions=(name,)))
        modules[-1].__dict__["_devmod_origin"] = origin
    return devmod.dumps(devmod.bundle(*modules))


def statement_of(data: bytes, name: str = "acme/f", version: int = 3) -> bytes:
    return make_statement(loads_own(data), data, name, version)


def test_an_envelope_is_dsse() -> None:
    """The encoding of the message is the example of DSSE's specification, but for the type."""
    assert (
        Envelope(b"hello world", ()).message
        == b"DSSEv1 28 application/vnd.in-toto+json 11 hello world"
    )
    assert json.loads(ENVELOPE.to_bytes()) == {
        "payload": "e30=",
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [
            {"keyid": "k", "sig": "+//+"},
            {"keyid": "", "sig": "Mg==", "from": ["another", "tool"]},
        ],
    }
    assert read_envelope(ENVELOPE.to_bytes()) == ENVELOPE
    # Both are DSSE.
    assert (
        read_envelope(ENVELOPE.to_bytes().replace(b"+//+", urlsafe_b64encode(b"\xfb\xff\xfe")))
        == ENVELOPE
    )


def test_a_statement_has_the_head_the_sources_and_the_tools() -> None:
    data = file_with_origins(
        f=devmod.Origin("opencl", "libclang 18.1.1", ["-O2"], {"f.cl": "1" * 64, "h.h": "2" * 64}),
        g=devmod.Origin("opencl", "libclang 19.1.0", [], {"g.cl": "3" * 64, "h.h": "2" * 64}),
        h=devmod.Origin("opencl"),
    )
    digest = hashlib.sha256(data[: 48 + int.from_bytes(data[12:16], "little")]).hexdigest()
    payload = statement_of(data)
    assert json.loads(payload) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": "acme/f", "digest": {"sha256": digest}, "annotations": {"size": len(data)}}
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:devmod:build:1",
                "externalParameters": {"name": "acme/f", "version": 3},
                "resolvedDependencies": [
                    {"name": "f.cl", "digest": {"sha256": "1" * 64}},
                    {"name": "g.cl", "digest": {"sha256": "3" * 64}},
                    {"name": "h.h", "digest": {"sha256": "2" * 64}},
                ],
            },
            "runDetails": {
                "builder": {"id": "urn:devmod:build:1", "version": {"libclang": "18.1.1, 19.1.0"}}
            },
        },
    }
    assert read_statement(payload) == Statement("acme/f", 3, digest, len(data))
    many = file_with_origins(
        f=devmod.Origin("opencl", "", [], {f"{number}.cl": "1" * 64 for number in range(1001)})
    )
    assert (
        json.loads(statement_of(many))["predicate"]["buildDefinition"]["resolvedDependencies"] == []
    )


def changed(**fields: Any) -> bytes:
    return json.dumps(json.loads(ENVELOPE.to_bytes()) | fields).encode()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (bytes((1 << 20) + 1), "it has more than 1048576 bytes"),
        (b"", "it is no JSON: Expecting value: line 1 column 1 (char 0)"),
        (
            b"\xff",
            "it is no JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
        (b"[" * 500_000, "it is no JSON: it is nested too deep"),
        (b'{"payload": ' * 80_000, "it is no JSON: it is nested too deep"),
        (b"[]", "it is no JSON object"),
        (b"9" * 5000, "it is no JSON: Exceeds the limit "),
        (
            changed(payloadType="text/plain"),
            "its payloadType is 'text/plain', and expected is 'application/vnd.in-toto+json'",
        ),
        (
            changed(payloadType=None),
            "its payloadType is None, and expected is 'application/vnd.in-toto+json'",
        ),
        (changed(signatures={}), "it has no list of signatures, and expected are 1 to 32"),
        (changed(signatures=[]), "it has 0 signatures, and expected are 1 to 32"),
        (
            changed(signatures=[{"sig": "MQ=="}] * 33),
            "it has 33 signatures, and expected are 1 to 32",
        ),
        (changed(signatures=["MQ=="]), "a signature in it is no object with a keyid and a sig"),
        (
            changed(signatures=[{"keyid": 1, "sig": "MQ=="}]),
            "a signature in it is no object with a keyid and a sig",
        ),
        (changed(signatures=[{"keyid": "k"}]), "a sig in it is not in base 64"),
        (changed(signatures=[{"sig": "M Q=="}]), "a sig in it is not in base 64"),
        (changed(payload="é"), "a payload in it is not in base 64"),
        (changed(payload=["e30="]), "a payload in it is not in base 64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_envelope_is_refused(data: bytes, text: str) -> None:
    assert refusal(ValueError, read_envelope, data).partition("(4300")[0] == text


def statement(**fields: Any) -> bytes:
    """Return a statement with other parameters or a changed part."""
    value = json.loads(statement_of(devmod.dumps(Raw("toy", b"1"))))
    for key, changes in fields.items():
        if key in ("name", "version"):
            value["predicate"]["buildDefinition"]["externalParameters"][key] = changes
        else:
            value[key] = changes
    return json.dumps(value).encode()


STATEMENT = "https://in-toto.io/Statement/v1"
KINDS = f"('{STATEMENT}', 'https://slsa.dev/provenance/v1', 'urn:devmod:build:1')"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"1", "its payload is no JSON object"),
        *(
            (payload, "its payload has not the fields of a statement about one file")
            for payload in (
                b"{}",
                *(statement(subject=each) for each in ([], [{}, {}], "x")),
                statement(predicate=[]),
            )
        ),
        (
            statement(_type="v0"),
            f"its payload is of the types {KINDS.replace(STATEMENT, 'v0')}, and expected are {KINDS}",
        ),
        (
            statement(
                subject=[
                    {"name": "acme/f", "digest": {"sha256": "0" * 65}, "annotations": {"size": 1}}
                ]
            ),
            f"its payload has an invalid name, version, digest or size: ('acme/f', 3, '{'0' * 65}', 1), 'acme/f'",
        ),
        *(
            (
                statement(name=each),
                f"its payload has an invalid name, version, digest or size: ({each!r}, 3, ",
            )
            for each in ("acme/g", ["acme/f"])
        ),
        *(
            (
                statement(version=each),
                f"its payload has an invalid name, version, digest or size: ('acme/f', {each!r}, ",
            )
            for each in (True, -1, "3", 2**63, 3.0)
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_statement_is_refused(payload: bytes, text: str) -> None:
    assert refusal(ValueError, read_statement, payload).startswith(text)


@pytest.mark.parametrize("name", ["a", "acme/softmax", "acme.example/soft-max_2/v1.0"])
def test_names(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Acme/f",
        "acme/",
        "/f",
        "a//f",
        "a/../f",
        "a/.f",
        "аcme/f",
        "acme/f\n",
        "acme f",
        "a" * 201,
        1,
        None,
    ],
)
def test_names_that_look_like_others_are_refused(name: object) -> None:
    assert (
        name_problem(name)
        == f"expected parts of a-z, 0-9, '.', '_' and '-' with '/' between them, such as acme/softmax, got {name!r}"
    )


def test_in_what_two_statements_differ() -> None:
    data, other = devmod.dumps(Raw("toy", b"1")), devmod.dumps(Raw("toy", b"2"))
    assert (
        differences(statement_of(data), statement_of(data, version=4))
        == "the version is 3 there, and 4 now"
    )
    assert differences(statement_of(data), statement_of(other, "acme/g")) == (
        "the name is 'acme/f' there, and 'acme/g' now; "
        f"the digest is {read_statement(statement_of(data)).digest!r} there, and {read_statement(statement_of(other)).digest!r} now"
    )
    assert (
        differences(b"1", statement_of(data))
        == "the old one is invalid: its payload is no JSON object"
    )
    assert (
        differences(statement(more=1), statement_of(devmod.dumps(Raw("toy", b"1"))))
        == "the sources or tools of its provenance"
    )
