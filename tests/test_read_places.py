"""Where the bytes of records, attachments and sections are: the reader in C and the one that was
written from docs/formats.md have the verdict of Python.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from alone import core_alone as core_alone

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

import spec_reader  # noqa: E402 - the reader that is written from docs/formats.md

from fuzzing import c_reader, specification  # noqa: E402 - tools/fuzzing
from handmade import aligned, headed, row  # noqa: E402 - tools/handmade.py

pytestmark = pytest.mark.row("R19", "R41")
needs_compiler = pytest.mark.skipif(c_reader.compiler() is None, reason="no C compiler on PATH")
FAR = 65_535
CODE = b"ab"
MODULE = {"kind": "npu", "functions": ["f"], "rank": 0}
ATTACHED = {"function": "f", "tag": "tuning+"}


def placed(page: dict[str, Any], blobs: Sequence[bytes], **head: Any) -> bytes:
    """Return a file of one page with a module and further records, whose bytes are `blobs`.

    A `size`, `sha256`, `total` or `count` that is given is that of the file.
    """
    body = b""
    page = {"modules": [MODULE], **page}
    numbered = 0
    rest = iter(blobs)
    for key in ("modules", "sources", "parts", "attached"):
        records = []
        for record in page.get(key, []):
            blob = next(rest)
            if blob:
                body = body.ljust(aligned(len(body)) + record.get("shift", 0), b"\0") + blob
            digest = hashlib.sha256(blob).digest()
            records.append({"size": len(blob), "sha256": digest, **record})
        if records:
            page[key] = records
        if key != "attached":
            numbered += len(records)
    packed = msgpack.packb(page)
    total = head.pop("total", len(body))
    count = head.pop("count", numbered)
    sections = head.pop("sections", {})
    rows = []
    for name, data in sections.items():
        rows.append([name, len(data), hashlib.sha256(data).digest()])
        body = body.ljust(aligned(len(body)), b"\0") + data
    fields = {"candidates": 1, "pages": [row(packed, count, total)], "sections": rows, **head}
    return headed(fields, packed, body)


def attached(*records: dict[str, Any], **head: Any) -> bytes:
    return placed({"attached": list(records)}, [CODE, *[b"later"] * len(records)], **head)


def with_module(**fields: Any) -> bytes:
    """Return a file with a module that has these fields, sources and a part."""
    page = {
        "modules": [MODULE | {"sources": 1} | fields],
        "sources": [{"shift": 64}],
        "parts": [{"shift": FAR}],
    }
    return placed(page, [CODE, b"\x81\xa1s\xa1s", b"p"])


NEWER = {"features": ["later"], "parts": [2]}
VALID = {
    "an attachment": attached(ATTACHED),
    "attachments of three tags": attached(
        ATTACHED, ATTACHED | {"tag": "later!"}, ATTACHED | {"tag": "other"}
    ),
    "an attachment far behind a multiple of 64": attached(ATTACHED | {"shift": FAR}),
    "an attachment of no bytes": placed({"attached": [ATTACHED]}, [CODE, b""]),
    "an attachment with a feature": attached(
        ATTACHED | {"features": ["later"], "zstd": [2**40, bytes(32)]}
    ),
    "an attachment with unknown keys": attached(ATTACHED | {"later+": [1], "other": {}}),
    "parts of a newer module": with_module(**NEWER),
    "a module far behind a multiple of 64": with_module(**NEWER, shift=FAR),
    "the largest alignment": attached(ATTACHED, align=65_536),
    "unknown keys of the head": attached(ATTACHED, **{"later!": 1, "other": []}),
    "unknown sections": attached(ATTACHED, sections={"later!": b"1", "b": b"", "c+": b"2"}),
}
INVALID = {
    "an attachment without a function": attached({"tag": "tuning+"}),
    "an attachment without a tag": attached({"function": "f"}),
    "an attachment with a number for a tag": attached(ATTACHED | {"tag": 1}),
    "an attachment twice": attached(ATTACHED, ATTACHED | {"tag": "a"}, ATTACHED),
    "an attachment with a short digest": attached(ATTACHED | {"sha256": b""}),
    "an attachment too far behind": attached(ATTACHED | {"shift": FAR + 1}),
    "an attachment that unpacks to too much": attached(
        ATTACHED | {"zstd": [2**20 + 256 * 5 + 1, bytes(32)]}
    ),
    "an attachment behind the bytes of its page": attached(ATTACHED, total=2),
    "an attachment that has a number": attached(ATTACHED, count=2),
    "a map of attachments": placed({"attached": {}}, [CODE]),
    "a module too far behind": with_module(**NEWER, shift=FAR + 1),
    "parts of a module without features": with_module(parts=[2]),
    "an alignment that is no power of two": attached(ATTACHED, align=96),
    "a small alignment": attached(ATTACHED, align=32),
    "a large alignment": attached(ATTACHED, align=131_072),
}


@pytest.mark.parametrize(("function", "is_valid"), [("f", True), ("ff", True), ("g", False)])
def test_an_attachment_is_in_the_page_of_its_function(function: str, is_valid: bool) -> None:
    """The second page begins at the name `g`. No module needs to have the function."""
    digest = hashlib.sha256(CODE).digest()
    pages = []
    for rank, name in enumerate("fg"):
        module = MODULE | {"functions": [name], "rank": rank, "size": 2, "sha256": digest}
        pages.append({"modules": [module]})
    empty = {"size": 0, "sha256": hashlib.sha256(b"").digest()}
    pages[0]["attached"] = [ATTACHED | empty | {"function": function}]

    first, second = map(msgpack.packb, pages)
    rows = [row(first, 1, 2), row(second, 1, 2, 0, b"g")]
    head = {"candidates": 2, "pages": rows}
    check(headed(head, first + second, CODE.ljust(64, b"\0") + CODE), is_valid)


def check(data: bytes, is_valid: bool) -> None:
    """Check the verdict of each reader."""
    specification.compare_bundle(data)
    try:
        spec_reader.read_bundle(data)
    except spec_reader.SpecError:
        assert not is_valid
    else:
        assert is_valid
    if c_reader.compiler() is not None:
        c_reader.compare_bundle(data)
        assert c_reader.ask(data)[0] == (0 if is_valid else 1)


@pytest.mark.parametrize("name", VALID)
def test_a_valid_file(name: str) -> None:
    check(VALID[name], True)


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_file(name: str) -> None:
    check(INVALID[name], False)


#: Bytes that only a reader of the whole file reads, by their distance from the end of the file.
UNREAD = {
    "before far bytes": (VALID["an attachment far behind a multiple of 64"], 10_000),
    "of an attachment": (VALID["an attachment"], 3),
    "of a section": (VALID["unknown sections"], 1),
    "before a section": (VALID["unknown sections"], 2),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_changed_byte_that_only_a_reader_of_the_whole_file_reads(name: str) -> None:
    data, distance = UNREAD[name]
    changed = bytearray(data)
    changed[-distance] ^= 1
    with pytest.raises(spec_reader.SpecError):
        spec_reader.read_bundle(bytes(changed))
    specification.compare_bundle(bytes(changed))
    if c_reader.compiler() is not None:
        assert c_reader.ask(bytes(changed))[0] == 0


@needs_compiler
def test_the_bytes_around_a_module_are_zeros_for_the_reader_in_c() -> None:
    """It reads them from one multiple of 64 to the next."""
    data = placed({"modules": [MODULE | {"shift": 127}]}, [CODE], sections={"later": b"1"})
    start = data.rindex(CODE)
    assert start % 64 == 63
    for offset, result in ((-64, 0), (-63, 1), (-1, 1), (2, 1), (64, 1), (65, 0)):
        changed = bytearray(data)
        changed[start + offset] = 1
        assert c_reader.ask(bytes(changed))[0] == result, offset
