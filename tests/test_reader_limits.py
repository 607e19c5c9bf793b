"""The readers of files at the limits of docs/formats.md: each form of msgpack, strings, kinds,
numbers and the bytes between parts.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import msgpack  # type: ignore[import-untyped]
import pytest
from alone import core_alone as core_alone
from each_case import check_each

import devmod

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools")]

from test_readers import READERS  # noqa: E402
from test_readers import reader as reader  # noqa: E402

import golden_bad  # noqa: E402
from fuzzing import c_reader  # noqa: E402
from handmade import aligned, file_of, headed, row  # noqa: E402

BLOB = golden_bad.BLOB
packed = msgpack.packb


def page_with(value: bytes) -> bytes:
    """Return a file of which the page has these bytes as the last value."""
    page = (
        b"\x82" + packed("modules") + packed([golden_bad.entry(rank=0)]) + packed("later") + value
    )
    return file_of(page, BLOB)


def record_with(key: str, value: bytes) -> bytes:
    """Return a file of which the record has these bytes as the last value."""
    pairs = [*golden_bad.entry(rank=0).items()]
    record = b"".join(packed(each) for pair in pairs for each in pair) + packed(key) + value
    start = bytes([0x80 + len(pairs) + 1])
    return file_of(b"\x81" + packed("modules") + b"\x91" + start + record, BLOB)


# -- the forms of msgpack

#: Values of each form, whose last byte is needed.
VALID = [
    *["00", "7f", "c0", "c2", "c3", "e0", "ff", "80", "90", "a0", "81a16101", "92017f", "a3616263"],
    *["c4026162", "c500026162", "c6000000026162", "d9026162", "da00026162", "db000000026162"],
    *["ca40490fdb", "cb400921fb54442d18"],
    *["ccff", "cdffff", "ceffffffff", "cf7fffffffffffffff", "cfffffffffffffffff"],
    *["d080", "d18000", "d280000000", "d38000000000000000"],
    *["dc00020102", "dd000000020102", "de0001a16101", "df00000001a16101"],
]
INVALID = [
    *["c1", "d401ff", "d501ffff", "d601ffffffff", "d7010000000000000000"],
    *["d80100000000000000000000000000000000", "c70101ff", "c8000101ff", "c90000000101ff"],
    *["dd7fffffff0102", "df7fffffffa16101", "c67fffffff6162", "db7fffffff6162", "dcffff01"],
]


def forms() -> Iterator[tuple[bytes, bool]]:
    for form in VALID:
        value = bytes.fromhex(form)
        yield value, False
        if len(value) > 1:
            yield value[:-1], True
    for form in INVALID:
        yield bytes.fromhex(form), True


FORMS = {value.hex(): (value, is_refused) for value, is_refused in forms()}

#: Unicode's table 3-7: the first and the last strings of each form, and those beside them.
STRINGS = [
    *["00", "7f", "c280", "dfbf", "e0a080", "e0bfbf", "e18080", "ecbfbf", "ed8080", "ed9fbf"],
    *["ee8080", "efbfbf", "f0908080", "f0bfbfbf", "f1808080", "f3bfbfbf", "f4808080", "f48fbfbf"],
]
NO_STRINGS = [
    *["80", "bf", "c080", "c1bf", "c27f", "c2c0", "c2", "df7f", "e09fbf", "e08080", "e180", "e1"],
    *["e18041", "e180c0", "e17f80", "e1c080", "eda080", "edbfbf", "ef80c0", "f08fbfbf", "f0808080"],
    *["f09080", "f0908041", "f09080c0", "f1804180", "f180c080", "f17f8080", "f4908080", "f5808080"],
    *["f8888080", "fe", "ff", "61c3", "61e282", "61f09f98"],
]


def in_text(text: bytes) -> bytes:
    return bytes([0xA0 + len(text)]) + text


#: Kinds, and whether they are refused.
KINDS = {
    **dict.fromkeys(["a", "z", "a_", "a0", "z9", "az", "x" * 32], False),
    **dict.fromkeys(
        ["", "0a", "_lib2", "9", "A", "aZ", "a-b", "a:", "a/", "a`", "a{", "é", "x" * 33], True
    ),
}

#: The start of a map with one key.
LATER = b"\x81" + packed("later")
INTEGERS = ["cc", "cd", "ce", "cf", "d0", "d1", "d2", "d3"]


def integer(mark: str, value: int) -> bytes:
    """Return an integer in a form of a width."""
    width = 1 << int(mark, 16) % 4
    return bytes.fromhex(mark) + value.to_bytes(width, "big", signed=value < 0)


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\1"


def arrays(is_refused: bool) -> bytes:
    """Return a page with as many arrays as its size allows, or with one more."""
    count = 1025
    base = len(packed("modules") + packed([golden_bad.entry(rank=0)]) + packed("later")) + 1
    while count + 2 <= 1024 + (base + 3 + count + 1) // 8:
        count += 1
    count += is_refused
    return page_with(b"\xdc" + count.to_bytes(2, "big") + b"\x90" * count)


def with_gap(place: int) -> bytes:
    """Return a file of two records with a byte between them that is not zero; none at -1."""
    blobs = bytearray(BLOB.ljust(64, b"\0") + BLOB)
    if place >= 0:
        blobs[place] = 1
    records = [golden_bad.entry(), golden_bad.entry()]
    return file_of({"modules": records, "roots": [0, 1]}, bytes(blobs))


def sections(*listed: tuple[str, int], length: int = 0, digest: int = 32) -> bytes:
    """Return a file with sections of zeros. It has `length` bytes more than its records and
    sections.
    """
    page = packed({"modules": [golden_bad.entry(rank=0)]})
    rows = []
    blobs = BLOB
    for name, size in listed:
        data = bytes(min(size, 999))
        rows.append([name, size, hashlib.sha256(data).digest().ljust(33, b"\0")[:digest]])
        if data:
            blobs = blobs.ljust(aligned(len(blobs)), b"\0") + data
    head = {"candidates": 1, "pages": [row(page, 1, len(BLOB))], "sections": rows}
    blobs = blobs[: len(blobs) + min(length, 0)] + bytes(max(length, 0))
    return headed(head, page, blobs)


def head_with(align: int) -> bytes:
    page = packed({"modules": [golden_bad.entry(rank=0)]})
    return headed({"candidates": 1, "pages": [row(page, 1, len(BLOB))], "align": align}, page, BLOB)


def names(*first: tuple[int, bytes] | None) -> bytes:
    """Return a file with a module in its first page, and a page for each first name."""
    record = {**golden_bad.entry(golden_bad.NAMED), "functions": ["f", "x"], "rank": 0}
    pages = [packed({"modules": [record]})]
    rows = [row(pages[0], 1, len(golden_bad.NAMED))]
    for each in first:
        pages.append(packed({"modules": []}))
        made = row(pages[-1], 0, 0, *(each or ()))
        if each is None:
            made = made[:4]
        rows.append(made)
    return headed({"candidates": 1, "pages": rows}, b"".join(pages), golden_bad.NAMED)


CASES: dict[str, tuple[bytes, bool]] = {
    **{f"the value {name}": (page_with(value), bad) for name, (value, bad) in FORMS.items()},
    **{
        f"the origin {name}": (record_with("origin", LATER + value), bad)
        for name, (value, bad) in FORMS.items()
        if not name.startswith(("d4", "d5", "d6", "d7", "d8", "c1", "c7", "c8", "c9"))
    },
    **{
        f"the text {each}": (page_with(b"\x92" + in_text(bytes.fromhex(each)) + b"\x80"), False)
        for each in STRINGS
    },
    **{
        f"the text {each}": (page_with(b"\x92" + in_text(bytes.fromhex(each)) + b"\x80"), True)
        for each in NO_STRINGS
    },
    **{
        f"the kind {kind}": (file_of({"modules": [golden_bad.entry(kind=kind)]}, BLOB), bad)
        for kind, bad in KINDS.items()
    },
    **{f"the shift {mark}": (record_with("shift", integer(mark, 0)), False) for mark in INTEGERS},
    **{
        f"the negative shift {mark}": (record_with("shift", integer(mark, -1)), True)
        for mark in INTEGERS[4:]
    },
    "a shift that is a float": (record_with("shift", packed(0.0)), True),
    "32 arrays": (page_with(nested(32)), False),
    "33 arrays": (page_with(nested(33)), True),
    "the most arrays": (arrays(is_refused=False), False),
    "an array more": (arrays(is_refused=True), True),
    "a key twice": (page_with(packed({"a": 1}).replace(b"\x81", b"\x82") + b"\xa1a\2"), True),
    "two keys": (page_with(packed({"b": 1, "a": 2})), False),
    "a key that is a number": (page_with(b"\x81\1\1"), True),
    "a module without bytes": (
        file_of({"modules": [golden_bad.entry(b"", kind="npu", format=None)]}),
        False,
    ),
    "no gap": (with_gap(-1), False),
    "the first byte of a gap": (with_gap(len(BLOB)), True),
    "the last byte of a gap": (with_gap(63), True),
    "sections": (sections(("a", 3), ("b", 65), ("c", 1)), False),
    "a section without bytes": (sections(("a", 3), ("b", 0), ("c", 1)), False),
    "a section twice": (sections(("a", 3), ("a", 3)), True),
    "a section that is cut": (sections(("a", 3), length=-1), True),
    "a section with more": (sections(("a", 3), length=1), True),
    "a long digest of a section": (sections(("a", 3), digest=33), True),
    "a short digest of a section": (sections(("a", 3), digest=31), True),
    "a section larger than any file": (sections(("a", 3), ("b", 2**63 - 1)), True),
    "an alignment of 64": (head_with(64), False),
    "an alignment of 65536": (head_with(65536), False),
    "an alignment of 63": (head_with(63), True),
    "an alignment of 32": (head_with(32), True),
    "an alignment of 96": (head_with(96), True),
    "an alignment of 131072": (head_with(131072), True),
    "pages in order": (names((0, b"y"), (1, b"a"), (0, b"z")), False),
    "a page with a prefix": (names((0, b"yes"), (2, b"t")), False),
    "a page with the name before": (names((0, b"y"), (0, b"y")), True),
    "a page with a smaller name": (names((0, b"y"), (0, b"x")), True),
    "a page with a longer prefix": (names((0, b"y"), (2, b"t")), True),
    "a page without a name": (names((0, b"y"), None), False),
    "a name behind a page without one": (names(None, (0, b"y")), True),
}


@pytest.mark.row("R19", "R41", "R50")
def test_a_limit(reader: str) -> None:
    def check(case: tuple[str, tuple[bytes, bool]]) -> None:
        _, (data, is_refused) = case
        READERS[reader](data)
        try:
            golden_bad.use(devmod.loads(data))
        except devmod.FormatError:
            assert is_refused
        else:
            assert not is_refused

    check_each(CASES.items(), check)


@pytest.mark.row("R41", "R50")
@pytest.mark.parametrize("at", range(8, 16))
def test_each_byte_of_the_version_and_the_length_counts(reader: str, at: int) -> None:
    good = CASES["two keys"][0]
    data = good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :]
    READERS[reader](data)
    number = int.from_bytes(data[8:12], "little")
    length = int.from_bytes(data[12:16], "little")
    if reader == "c" and number > 6:
        assert c_reader.ask(data)[3] == (
            f"it is in version {number - 5} of the format; this reader reads version 1"
        )
    elif reader == "c" and length > 64 << 20:
        assert c_reader.ask(data)[3] == f"its head has {length} bytes; the limit is {64 << 20}"


@pytest.mark.row("R50")
def test_the_length_of_a_head_at_its_limit_in_c() -> None:
    if c_reader.compiler() is None:
        pytest.skip("there is no C compiler on PATH")
    good = CASES["two keys"][0]
    for length, problem in (
        (64 << 20, "the file is cut short"),
        ((64 << 20) + 1, f"its head has {(64 << 20) + 1} bytes; the limit is {64 << 20}"),
    ):
        assert c_reader.ask(good[:12] + length.to_bytes(4, "little") + good[16:])[3] == problem
    assert c_reader.ask(good[:47])[3] == "it is no .devmod file, or is cut short"
    assert c_reader.ask(good[:48])[3] == "the file is cut short"


@pytest.mark.row("R50")
def test_sha256_of_each_size_in_c() -> None:
    if c_reader.compiler() is None:
        pytest.skip("there is no C compiler on PATH")
    data = bytes(range(1, 251))
    digest = ctypes.create_string_buffer(32)
    for size in range(200):
        c_reader.library().devmod_sha256(data, ctypes.c_size_t(size), digest)
        assert digest.raw == hashlib.sha256(data[:size]).digest(), size
