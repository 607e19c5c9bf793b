"""ELF files of both classes and byte orders: the bytes of a symbol, and damaged headers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from each_case import refusal
from work import check_reader

import devmod
from devmod.interop import tvm
from devmod_readers.elf import ElfFile, symbol_bytes

pytestmark = pytest.mark.once  # bytes, which the reader reads itself


def library(
    strings: bytes, symbols: list[tuple[int, int]], *, wide: bool = True, order: str = "<"
) -> bytes:
    """Return a library with these symbols, each the offset of its name and the number of its
    section. All have the bytes `found`.
    """
    symbol = struct.Struct(order + ("IBBHQQ" if wide else "IIIBBH"))
    head_size, section_size, segment_size = (64, 64, 56) if wide else (52, 40, 32)
    content = b"found"
    at = head_size + segment_size
    place = at + len(content)
    fields = [
        (name, 0x11, 0, section, at, len(content))
        if wide
        else (name, at, len(content), 0x11, 0, section)
        for name, section in symbols
    ]
    symbol_table = b"".join(symbol.pack(*each) for each in fields)
    after = place + len(symbol_table)
    names_at = after + len(strings)
    labels = b"\0.dynsym\0.dynstr\0"
    headers = names_at + len(labels)
    sections = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, 11, 2, 0, place, len(symbol_table), 2, 1, 8, symbol.size),
        (9, 3, 2, 0, after, len(strings), 0, 0, 1, 0),
        (0, 3, 0, 0, names_at, len(labels), 0, 0, 1, 0),
    ]
    form = order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII")
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1])
    head = struct.pack(
        order + ("16sHHIQQQIHHHHHH" if wide else "16sHHIIIIIHHHHHH"),
        *(
            ident,
            3,
            62,
            1,
            0,
            head_size,
            headers,
            0,
            head_size,
            segment_size,
            1,
            section_size,
            len(sections),
            3,
        ),
    )
    size = headers + section_size * len(sections)
    segment = (1, 4, 0, 0, 0, size, size, 1) if wide else (1, 0, 0, 0, size, size, 4, 1)
    load = struct.pack(order + ("IIQQQQQQ" if wide else "IIIIIIII"), *segment)
    return (
        head
        + load
        + content
        + symbol_table
        + strings
        + labels
        + b"".join(struct.pack(form, *each) for each in sections)
    )


@pytest.mark.parametrize(("wide", "order"), [(True, "<"), (True, ">"), (False, "<"), (False, ">")])
def test_a_symbol_is_found_by_its_whole_name(tmp_path: Path, wide: bool, order: str) -> None:
    path = tmp_path / "k.so"
    strings = b"\0other\0shared_blob\0blob2\0"
    behind = strings.index(b"blob\0")
    for symbols, expected in (
        ([(0, 0), (1, 1), (behind, 1)], b"found"),  # a name may be the end of a longer one
        ([(0, 0), (1, 1), (strings.index(b"blob2"), 1)], None),
        ([(0, 0), (behind, 0)], None),  # it is not defined here
        ([(0, 0)], None),
    ):
        path.write_bytes(library(strings, symbols, wide=wide, order=order))
        found = symbol_bytes(str(path), memoryview(path.read_bytes()), "blob")
        assert (found if found is None else bytes(found)) == expected


def test_symbols_with_names_that_share_their_end_are_read_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "k.so"

    def symbols(count: int) -> bytes:
        return library(
            b"\0" + b"a" * (23 * count) + b"\0", [(1 + number, 1) for number in range(count)]
        )

    def load(data: bytes) -> None:
        path.write_bytes(data)
        tvm.load_library(path)

    check_reader(symbols, 13_000, load)
    with pytest.raises(devmod.FormatError, match="has no symbol '__tvm_ffi__library_bin'"):
        tvm.load_library(path)


@pytest.mark.parametrize(
    ("size_at", "count_at", "what"), [(54, 56, "segments"), (58, 60, "sections")]
)
def test_headers_that_overlap_are_refused(
    tmp_path: Path, size_at: int, count_at: int, what: str
) -> None:
    data = bytearray(library(b"\0blob\0", [(0, 0), (1, 1)]) + bytes(70_000))
    data[size_at : size_at + 2], data[count_at : count_at + 2] = b"\1\0", b"\xfe\xff"
    path = tmp_path / "k.so"
    path.write_bytes(data)
    assert (
        refusal(devmod.FormatError, symbol_bytes, str(path), memoryview(path.read_bytes()), "blob")
        == f"{str(path)!r} is a damaged ELF file: its table of {what} is outside of the file"
    )


@pytest.mark.parametrize(("wide", "order"), [(True, "<"), (True, ">"), (False, "<"), (False, ">")])
def test_the_header_and_the_segments(wide: bool, order: str) -> None:
    data = bytearray(library(b"\0blob\0", [(0, 0), (1, 1)], wide=wide, order=order))
    # The offset, the addresses and the sizes; for 32 bits, the flags too.
    layout = "QQQQQ" if wide else "IIIIII"
    struct.pack_into(order + layout, data, 64 + 8 if wide else 52 + 4, *range(1, len(layout) + 1))
    file = ElfFile(data)
    assert (file.machine, file.section_count) == (62, 4)
    assert list(file.segments()) == [(1, 4 if wide else 6, 1, 2, 4)]
