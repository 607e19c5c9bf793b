"""Work and memory in proportion to a file, with files that once took minutes or a hundred times their size."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from stored import file_of
from work import assert_linear

import devmod
from devmod._cli import main
from devmod._plugins import discovery as _discovery
from devmod.interop import tvm

pytestmark = pytest.mark.once

#: Bytes of memory for a byte of the file: far above what reading takes, far below what it took.
MOST_MEMORY = 50


def check(make: Callable[[int], bytes], count: int, read: Callable[[bytes], object]) -> None:
    """Check that `read` takes memory in proportion to a file with `count` items, and work to smaller ones. An error of devmod is a valid result."""

    def attempt(data: bytes) -> None:
        with suppress(devmod.FormatError):
            read(data)

    def call(number: int) -> Callable[[], None]:
        data = make(number)
        return lambda: attempt(data)

    data = make(count)
    tracemalloc.start()
    try:
        attempt(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY * len(data) + (1 << 20)
    assert_linear(call, count // 100)


def array(count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big")


def table(count: int) -> bytes:
    return b"\xdf" + count.to_bytes(4, "big")


def names(count: int, behind: bytes = b"") -> bytes:
    return b"".join(b"\xa6%06d" % number + behind for number in range(count))


ROOT = b"\xa5roots\x91\x00\xa7modules\x91"
INDEXES: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "empty maps under an unknown key": (
        300_000,
        lambda count: b"\x83" + ROOT + b"\x81\xa4kind\xa4_lib\xa1x" + array(count) + b"\x80" * count,
    ),
    "numbers under an unknown key": (
        300_000,
        lambda count: b"\x83" + ROOT + b"\x81\xa4kind\xa4_lib\xa1x" + array(count) + b"\x01" * count,
    ),
    "empty arrays in an origin": (
        300_000,
        lambda count: b"\x82" + ROOT + b"\x82\xa4kind\xa4_lib\xa6origin\x81\xa1x" + array(count) + b"\x90" * count,
    ),
    "small maps in an origin": (
        75_000,
        lambda count: b"\x82" + ROOT + b"\x82\xa4kind\xa4_lib\xa6origin\x81\xa1x" + array(count) + b"\x81\xa1x\xc0" * count,
    ),
    "nodes": (20_000, lambda count: b"\x82" + ROOT[:-1] + array(count) + b"\x81\xa4kind\xa4_lib" * count),
    "imports": (
        300_000,
        lambda count: (
            b"\x82\xa5roots\x91\x00\xa7modules\x92\x82\xa4kind\xa4_lib\xa7imports"
            + array(count)
            + b"\x01" * count
            + b"\x81\xa4kind\xa4_lib"
        ),
    ),
}
MODULES: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "functions": (20_000, lambda count: table(count) + names(count, b"\x94\xa0\x90\x90\x90")),
    "types": (60_000, lambda count: b"\x81\xa1f\x94\xa1f" + array(count) + b"\x93\x03\x40\x01" * count + b"\x90\x90"),
    "empty maps in an interface": (
        300_000,
        lambda count: b"\x81\xa1f\x95\xa1f\x90\x90\x90\x81\xa1x" + array(count) + b"\x80" * count,
    ),
    "keys of an interface": (40_000, lambda count: b"\x81\xa1f\x95\xa1f\x90\x90\x90" + table(count) + names(count, b"\x80")),
}


@pytest.mark.parametrize(("count", "index"), INDEXES.values(), ids=INDEXES)
def test_an_index_is_read_in_proportion_to_its_size(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, count: int, index: Callable[[int], bytes]
) -> None:
    path = tmp_path / "k.devmod"

    def inspect(number: int) -> None:
        path.write_bytes(file_of(index(number)))
        for options in ((), ("--json",)):
            main(["inspect", *options, str(path)])
        capsys.readouterr()

    check(lambda number: file_of(index(number)), count, lambda data: devmod.dumps(devmod.loads(data)))
    inspect(count)
    assert_linear(lambda number: lambda: inspect(number), count // 100)


@pytest.mark.row("R19")
@pytest.mark.parametrize(("count", "fmap"), MODULES.values(), ids=MODULES)
def test_a_modules_bytes_are_read_in_proportion_to_their_size(count: int, fmap: Callable[[int], bytes]) -> None:
    from devmod.backend import decode

    spec = devmod.backend.find_spec("opencl")
    assert spec is not None
    check(lambda number: b"\xa2cl" + fmap(number) + b"\xc4\x00", count, lambda data: dict(decode(spec, memoryview(data))[1]))


# -- unknown kinds


def unknown_kinds(count: int) -> bytes:
    digest = hashlib.sha256(b"x").digest()
    modules: list[dict[str, Any]] = [
        {"kind": f"k{number}", "format": "x", "functions": ["f"], "offset": 64 * number, "size": 1, "sha256": digest}
        for number in range(count)
    ]
    return file_of({"roots": list(range(count)), "modules": modules}, (b"x" + bytes(63)) * (count - 1) + b"x")


def tvm_kinds(count: int) -> bytes:
    def text(value: bytes) -> bytes:
        return len(value).to_bytes(8, "little") + value

    numbers = [count, 0, *[count - 1] * count]
    body = b"".join(number.to_bytes(8, "little") for number in ([count + 1, *numbers[1:], count - 1, *range(1, count)]))
    body += text(b"_lib") + b"".join(text(b"k%d" % number) + text(b"") for number in range(count - 1))
    return len(body).to_bytes(8, "little") + body


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One item for each listing of the distributions."""
    made: list[None] = []
    scan_all = _discovery._scan_all

    def counted() -> Any:
        made.append(None)
        return scan_all()

    monkeypatch.setattr(_discovery, "_scan_all", counted)
    return made


@pytest.mark.row("R3", "R4")
def test_unknown_kinds_are_looked_up_by_one_listing(capsys: pytest.CaptureFixture[str], tmp_path: Path, listings: list[None]) -> None:
    data = unknown_kinds(500)
    path = tmp_path / "k.devmod"
    path.write_bytes(data)
    root = devmod.load(path)
    acts: list[Callable[[], object]] = [
        lambda: dict(root.functions),
        lambda: devmod.dumps(root),
        lambda: main(["inspect", str(path)]),
        lambda: main(["inspect", "--json", str(path)]),
        lambda: tvm.dump_imports(tvm.load_imports(tvm_kinds(500))),
    ]
    for act in acts:
        listings.clear()
        act()
        assert len(listings) < 6, act
    capsys.readouterr()
    for ask in (lambda: root.get_function("f"), lambda: root.get_global("f"), lambda: root.get_function("f", query_imports=True)):
        listings.clear()
        with pytest.raises(devmod.NotRegisteredError) as caught:
            ask()
        assert len(listings) == 1
        lines = str(caught.value).splitlines()
        assert (len(lines), lines[-1]) == (14, "  and 488 more")


@pytest.mark.row("R3")
def test_a_miss_is_forgotten_when_the_call_ends(register: Callable[..., None]) -> None:
    root = devmod.loads(unknown_kinds(2))
    assert dict(root.functions).keys() == {"f"}
    spec = devmod.TargetSpec("k0", title="K", distribution="devmod-k0", formats=["x"])
    register("devmod.targets", "k0", spec)
    with pytest.raises(devmod.FormatError, match="the bytes of the k0 module"):
        dict(root.functions)


# -- libraries


def library(strings: bytes, symbols: list[tuple[int, int]], *, wide: bool = True, order: str = "<") -> bytes:
    """Return a library with these symbols, each the offset of its name and the number of its section. All have the bytes `found`."""
    symbol = struct.Struct(order + ("IBBHQQ" if wide else "IIIBBH"))
    head_size, section_size, segment_size = (64, 64, 56) if wide else (52, 40, 32)
    content = b"found"
    at = head_size + segment_size
    place = at + len(content)
    fields = [
        (name, 0x11, 0, section, at, len(content)) if wide else (name, at, len(content), 0x11, 0, section) for name, section in symbols
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
        *(ident, 3, 62, 1, 0, head_size, headers, 0, head_size, segment_size, 1, section_size, len(sections), 3),
    )
    size = headers + section_size * len(sections)
    segment = (1, 4, 0, 0, 0, size, size, 1) if wide else (1, 0, 0, 0, size, size, 4, 1)
    load = struct.pack(order + ("IIQQQQQQ" if wide else "IIIIIIII"), *segment)
    return head + load + content + symbol_table + strings + labels + b"".join(struct.pack(form, *each) for each in sections)


@pytest.mark.parametrize(("wide", "order"), [(True, "<"), (True, ">"), (False, "<"), (False, ">")])
def test_a_symbol_is_found_by_its_whole_name(tmp_path: Path, wide: bool, order: str) -> None:
    from devmod_targets.interop.tvm import symbol_bytes

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
        return library(b"\0" + b"a" * (23 * count) + b"\0", [(1 + number, 1) for number in range(count)])

    def load(data: bytes) -> None:
        path.write_bytes(data)
        tvm.load_library(path)

    check(symbols, 13_000, load)
    with pytest.raises(devmod.FormatError, match="has no symbol '__tvm_ffi__library_bin'"):
        tvm.load_library(path)


@pytest.mark.parametrize(("size_at", "count_at", "what"), [(54, 56, "segments"), (58, 60, "sections")])
def test_headers_that_overlap_are_refused(tmp_path: Path, size_at: int, count_at: int, what: str) -> None:
    from devmod_targets.interop.tvm import symbol_bytes

    data = bytearray(library(b"\0blob\0", [(0, 0), (1, 1)]) + bytes(70_000))
    data[size_at : size_at + 2], data[count_at : count_at + 2] = b"\1\0", b"\xfe\xff"
    path = tmp_path / "k.so"
    path.write_bytes(data)
    with pytest.raises(devmod.FormatError) as caught:
        symbol_bytes(str(path), memoryview(path.read_bytes()), "blob")
    assert str(caught.value) == f"{str(path)!r} is a damaged ELF file: its table of {what} is outside of the file"
