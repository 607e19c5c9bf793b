"""The content of a file of signatures: a DSSE envelope with an in-toto statement, whose predicate
is SLSA's provenance.

The envelope comes from strangers. It is bounded, and `read_statement` is called after the
signatures of its payload were checked.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from devmod import Module
from devmod.backend import HEADER, MAX_SIGNATURE, walk

#: The most signatures in a file of at most MAX_SIGNATURE bytes.
MAX_SIGNATURES = 32
#: The most sources that a statement lists. The pages, whose digests are signed, have all of them.
MAX_SOURCES = 1000
#: The largest version.
MAX_VERSION = 2**63 - 1
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://slsa.dev/provenance/v1"
_BUILD = "urn:devmod:build:1"
_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*(?:/[a-z0-9]+(?:[._-][a-z0-9]+)*)*")


class Signature(NamedTuple):
    """One signature of an envelope: the hint which key made it, its bytes, and the fields of
    others.
    """

    keyid: str
    sig: bytes
    extra: Mapping[str, Any] = {}


class Envelope(NamedTuple):
    """A payload, and its signatures."""

    payload: bytes
    signatures: tuple[Signature, ...]

    @property
    def message(self) -> bytes:
        """What is signed: DSSE's pre-authentication encoding."""
        return b"DSSEv1 %d %s %d %s" % (
            len(PAYLOAD_TYPE),
            PAYLOAD_TYPE.encode(),
            len(self.payload),
            self.payload,
        )

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        signatures = [
            {"keyid": each.keyid, "sig": b64encode(each.sig).decode(), **each.extra}
            for each in self.signatures
        ]
        data = {
            "payload": b64encode(self.payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": signatures,
        }
        return json.dumps(data, separators=(",", ":")).encode() + b"\n"


class Statement(NamedTuple):
    """What a payload says: the name and the version of a file, the SHA-256 of its header and head
    in hexadecimal, and its size.
    """

    name: str
    version: int
    digest: str
    size: int


def name_problem(name: object) -> str:
    """Return why a text cannot be the name of a file; "" if it can. Names that look alike would be
    two names.
    """
    if isinstance(name, str) and len(name) <= 200 and _NAME.fullmatch(name):
        return ""
    return f"expected parts of a-z, 0-9, '.', '_' and '-' with '/' between them, such as acme/softmax, got {name!r}"


def head_of(data: bytes) -> bytes:
    """Return the header and the head of a file that was opened."""
    return data[: HEADER + int.from_bytes(data[12:16], "little")]


def make_statement(module: Module, data: bytes, name: str, version: int) -> bytes:
    """Return the payload for a file. It depends on the file, the name and the version alone, so
    that several can sign the same.
    """
    origins = [origin for each in walk(module) if (origin := each.origin) is not None]
    used: set[tuple[str, str]] = set()
    for origin in origins:
        used.update(origin.sources.items())
    sources = sorted(used)
    tools: dict[str, str] = {}
    for toolchain in sorted({origin.toolchain for origin in origins} - {""}):
        tool, _, number = toolchain.rpartition(" ")
        name_of_tool = tool or number
        if tool in tools:
            number = f"{tools[tool]}, {number}"
        tools[name_of_tool] = number
    found = [{"digest": {"sha256": digest}, "name": source} for source, digest in sources]
    definition: dict[str, object] = {
        "buildType": _BUILD,
        "externalParameters": {"name": name, "version": version},
    }
    if len(found) > MAX_SOURCES:
        found = []
    definition["resolvedDependencies"] = found
    predicate = {
        "buildDefinition": definition,
        "runDetails": {"builder": {"id": _BUILD, "version": tools}},
    }
    subject = [
        {
            "annotations": {"size": len(data)},
            "digest": {"sha256": sha256(head_of(data)).hexdigest()},
            "name": name,
        }
    ]
    statement = {
        "_type": _STATEMENT,
        "predicate": predicate,
        "predicateType": _PREDICATE,
        "subject": subject,
    }
    return json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()


def read_envelope(data: bytes) -> Envelope:
    """Return the envelope in a file of signatures. Raise ValueError with the reason if it is
    invalid.
    """
    if len(data) > MAX_SIGNATURE:
        raise ValueError(f"it has more than {MAX_SIGNATURE} bytes")
    envelope = _json(data, "it")
    if envelope.get("payloadType") != PAYLOAD_TYPE:
        raise ValueError(
            f"its payloadType is {_short(envelope.get('payloadType'))}, and expected is {PAYLOAD_TYPE!r}"
        )
    found = envelope.get("signatures")
    if not isinstance(found, list) or not 1 <= len(found) <= MAX_SIGNATURES:
        count: object = "no list of"
        if isinstance(found, list):
            count = len(found)
        raise ValueError(f"it has {count} signatures, and expected are 1 to {MAX_SIGNATURES}")
    signatures = []
    for each in found:
        if not isinstance(each, dict) or not isinstance(each.get("keyid", ""), str):
            raise ValueError("a signature in it is no object with a keyid and a sig")
        extra = {key: value for key, value in each.items() if key not in ("keyid", "sig")}
        signatures.append(Signature(each.get("keyid", ""), _bytes(each.get("sig"), "sig"), extra))
    return Envelope(_bytes(envelope.get("payload"), "payload"), tuple(signatures))


def read_statement(payload: bytes) -> Statement:
    """Return what a payload says. Raise ValueError with the reason if it is invalid."""
    statement = _json(payload, "its payload")
    try:
        build = statement["predicate"]["buildDefinition"]
        kinds = statement["_type"], statement["predicateType"], build["buildType"]
        (subject,) = statement["subject"]
        name = build["externalParameters"]["name"]
        version = build["externalParameters"]["version"]
        digest = subject["digest"]["sha256"]
        found = Statement(name, version, digest, subject["annotations"]["size"])
        is_same = subject["name"] == name
    except (KeyError, TypeError, ValueError, IndexError):
        raise ValueError("its payload has not the fields of a statement about one file") from None
    if kinds != (_STATEMENT, _PREDICATE, _BUILD):
        raise ValueError(
            f"its payload is of the types {_short(kinds)}, and expected are {(_STATEMENT, _PREDICATE, _BUILD)}"
        )
    is_version = type(version) is int and 0 <= version <= MAX_VERSION and type(found.size) is int
    if (
        name_problem(name)
        or not is_same
        or not is_version
        or not isinstance(found.digest, str)
        or len(found.digest) != 64
    ):
        raise ValueError(
            f"its payload has an invalid name, version, digest or size: {_short(tuple(found))}, {_short(subject['name'])}"
        )
    return found


def differences(*payloads: bytes) -> str:
    """Return in what two payloads differ, for a message. The first comes from a stranger."""
    try:
        before, after = map(read_statement, payloads)
    except ValueError as error:
        return f"the old one is invalid: {error}"
    changed = [
        f"the {what} is {old!r} there, and {new!r} now"
        for what, old, new in zip(before._fields, before, after, strict=True)
        if old != new
    ]
    return "; ".join(changed) or "the sources or tools of its provenance"


def _json(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        reason = str(error)
        if isinstance(error, RecursionError):
            reason = "it is nested too deep"
        raise ValueError(f"{what} is no JSON: {reason}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no JSON object")
    return value


def _bytes(value: object, field: str) -> bytes:
    """Return the bytes of a text in one of both alphabets of base 64, as DSSE demands."""
    try:
        if isinstance(value, str) and value:
            return b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        pass
    raise ValueError(f"a {field} in it is not in base 64")


def _short(value: object) -> str:
    text = repr(value)
    if len(text) <= 300:
        return text
    return f"{text[:280]}… ({len(text)} characters)"
