"""The readers of AMD's code objects: damage is an error before a driver gets the file."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from backend_checks import check_error
from containers import Section, elf_file

from devmod.errors import FormatError
from devmod_readers.amdgpu import (
    ArgumentPlace,
    CodeObjectKernel,
    check_code_object,
    find_kernels,
    read_code_object,
)
from devmod_readers.offload import is_container, read_images

pytestmark = pytest.mark.once  # bytes, which the reader reads itself

VECTORS = Path(__file__).parent / "vectors"
DAMAGED = "the rocm payload of format 'hsaco' is truncated or damaged: "


@pytest.fixture(scope="module")
def code() -> bytes:
    """A code object of Triton for gfx1100."""
    return bytes(read_images(VECTORS / "offload" / "plain.bundle")[0].data)


def symbol_of(code: bytes) -> str:
    (kernel,) = read_code_object(code).values()
    return kernel.symbol


def test_a_complete_code_object_passes(code: bytes) -> None:
    check_code_object(code, [symbol_of(code)])


def test_a_truncated_code_object_is_refused_at_every_length(code: bytes) -> None:
    for size in range(64, len(code), 37):
        with pytest.raises(FormatError) as error:
            check_code_object(code[:size], [symbol_of(code)])
        assert str(error.value).startswith(DAMAGED)
    check_error(
        FormatError,
        lambda: check_code_object(code[:40], []),
        DAMAGED + "it has 40 bytes; an ELF header has 64",
    )


def test_a_kernel_without_a_descriptor_is_refused(code: bytes) -> None:
    check_error(
        FormatError,
        lambda: check_code_object(code, ["none.kd"]),
        DAMAGED + "the kernel 'none' has no descriptor",
    )
    # The end of another kernel's name is no name.
    check_error(
        FormatError,
        lambda: check_code_object(code, ["dd.kd"]),
        DAMAGED + "the kernel 'dd' has no descriptor",
    )


def test_a_descriptor_names_code_inside_the_file(code: bytes) -> None:
    symbol = symbol_of(code)
    name = symbol.removesuffix(".kd")
    place = descriptor_of(code, symbol)
    for offset in (1 << 40, 8):
        damaged = bytearray(code)
        struct.pack_into("<q", damaged, place + 16, offset)
        call = partial(check_code_object, damaged, [symbol])
        check_error(
            FormatError, call, DAMAGED + f"the code of the kernel {name!r} is outside of the file"
        )


def test_a_descriptor_is_inside_the_file(code: bytes) -> None:
    symbol = symbol_of(code)
    damaged = bytearray(code)
    struct.pack_into("<Q", damaged, symbol_entry(code, symbol) + 8, 1 << 50)
    text = (
        DAMAGED
        + f"the descriptor of the kernel {symbol.removesuffix('.kd')!r} is outside of the file"
    )
    check_error(FormatError, lambda: check_code_object(damaged, [symbol]), text)


def symbol_entry(code: bytes, symbol: str) -> int:
    """Return the place of a symbol's entry in the table of dynamic symbols."""
    table, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    sections = [
        struct.unpack_from("<IIQQQQII", code, table + 64 * number) for number in range(count)
    ]
    symbols = next(section for section in sections if section[1] == 11)
    strings = sections[symbols[6]][4]
    for entry in range(symbols[4], symbols[4] + symbols[5], 24):
        (name,) = struct.unpack_from("<I", code, entry)
        if code[strings + name :].startswith(symbol.encode() + b"\0"):
            return entry
    raise AssertionError(symbol)


def descriptor_of(code: bytes, symbol: str) -> int:
    """Return the place of a kernel's descriptor in the file: its segment is loaded at its
    offset.
    """
    (address,) = struct.unpack_from("<Q", code, symbol_entry(code, symbol) + 8)
    return int(address)


def test_containers_are_known_by_their_magic(code: bytes) -> None:
    for path in ("offload/plain.bundle", "offload/zstd.bundle", "offload/images.offloadbinary"):
        assert is_container((VECTORS / path).read_bytes())
    assert not is_container(code)
    assert not is_container(b"")


def elf(body: bytes, sections: bytes, segments: bytes = b"") -> bytes:
    """Return a code object with tables of sections and segments after its body."""
    at = 64 + len(body)
    counts = (64, 56, len(segments) // 56, 64, len(sections) // 64, 0)
    head = struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, at + len(sections), at, 0, *counts)
    return b"\x7fELF\2\1\1\x40\2" + bytes(7) + head + body + sections + segments


def test_kernels_are_found_by_the_symbols_of_their_descriptors(code: bytes) -> None:
    for data in (code, memoryview(code)):
        assert find_kernels(data, ["add", "none", "ad"]) == {"add"}
    assert find_kernels(b"", ["add"]) == find_kernels(code, []) == set()


def test_notes_are_read_once() -> None:
    """4,000 sections are one note of 240 kB."""
    metadata = msgpack.packb({"amdhsa.kernels": [], "x": [[number] for number in range(60_000)]})
    note = (
        struct.pack("<III", 7, len(metadata), 32)
        + b"AMDGPU\0\0"
        + metadata
        + bytes(-len(metadata) % 4)
    )
    section = struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 64, len(note), 0, 0, 1, 0)
    assert read_code_object(elf(note, section)) == {}
    message = (
        "the rocm payload of format 'hsaco' is damaged, or is not a code object: its notes overlap"
    )
    check_error(FormatError, lambda: read_code_object(elf(note, section * 4000)), message)


def test_notes_end_inside_the_file() -> None:
    metadata = msgpack.packb({"amdhsa.kernels": []})
    note = struct.pack("<III", 7, len(metadata), 32) + b"AMDGPU\0\0" + metadata

    def code_with(at: int, size: int) -> bytes:
        section = struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, at, size, 0, 0, 1, 0)
        return elf(b"", section) + note

    end = len(code_with(0, 0))
    assert read_code_object(code_with(end - len(note), len(note))) == {}
    message = "the rocm payload of format 'hsaco' is damaged, or is not a code object: its notes end outside the file"
    for at, size in ((end - len(note), len(note) + 1), (end + 1, 0), (64, 1 << 40)):
        code = code_with(at, size)
        with pytest.raises(FormatError) as caught:
            read_code_object(code)
        assert str(caught.value) == message


def test_symbols_are_read_once() -> None:
    symbols = struct.pack("<IBBHQQ", 1, 0, 0, 1, 0, 0) * 20_000
    section = struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, 64, len(symbols), 0, 0, 1, 24)
    message = DAMAGED + "it has 5000 tables of dynamic symbols; expected at most 1"
    check_error(
        FormatError, lambda: check_code_object(elf(symbols, section * 5000), ["k.kd"]), message
    )


def test_segments_are_few() -> None:
    """Each kernel's descriptor is looked for in each segment."""
    segments = struct.pack("<IIQQQQQQ", 1, 1, 0, 0, 0, 1, 1, 1) * 8000
    message = DAMAGED + "it has 8000 loaded segments; expected at most 64"
    check_error(
        FormatError,
        lambda: check_code_object(elf(b"", b"", segments), [f"k{n}.kd" for n in range(8000)]),
        message,
    )


def test_names_that_end_at_one_place_are_compared_once() -> None:
    """20,000 symbols have names of up to 300 kB, and one of them is looked for."""
    names = b"\0" + b"k" * 300_000 + b".kd\0"
    symbols = b"".join(
        struct.pack("<IBBHQQ", 1 + number, 0, 0, 1, 0, 0) for number in range(20_000)
    )
    sections = struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, 64, len(symbols), 1, 0, 1, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64 + len(symbols), len(names), 0, 0, 1, 0)
    data = elf(symbols + names, sections)
    check_error(
        FormatError,
        lambda: check_code_object(data, ["q" * 1000 + ".kd"]),
        DAMAGED + f"the kernel {'q' * 100!r}… (1000 characters) has no descriptor",
    )


# -- metadata


def note(kernels: list[Any], name: bytes = b"AMDGPU\0", kind: int = 32, **fields: Any) -> bytes:
    """Return a note with the metadata of kernels."""
    data = msgpack.packb({"amdhsa.kernels": kernels, **fields})
    padded = data + bytes(-len(data) % 4)
    size = struct.pack("<III", len(name), len(data), kind)
    return size + name + bytes(-len(name) % 4) + padded


def metadata(*notes: bytes) -> bytes:
    """Return a code object with sections of notes, behind one of another type."""
    sections: list[Section] = [("other", 1, note([kernel("hidden")]), 0)]
    sections += [("notes", 7, each, 0) for each in notes]
    return elf_file(sections, 224)


def kernel(name: str = "k", *arguments: tuple[int, int, str], **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = {".name": name, ".symbol": f"{name}.kd", ".kernarg_segment_size": 24}
    if arguments:
        keys = (".offset", ".size", ".value_kind")
        found[".args"] = [dict(zip(keys, each, strict=True)) for each in arguments]
    return found | {f".{key}": value for key, value in fields.items()}


ALL = kernel(
    "all",
    (0, 8, "global_buffer"),
    (12, 12, "by_value"),
    (24, 0, "hidden_none"),
    group_segment_fixed_size=512,
    reqd_workgroup_size=[2, 3, 5],
    max_flat_workgroup_size=30,
    wavefront_size=32,
)


def test_the_metadata_of_kernels() -> None:
    first = note([ALL, kernel()]) + note([kernel("other")], kind=33) + note([kernel("m")], b"AMD\0")
    found = read_code_object(metadata(first, note([kernel("l")]) + bytes(11)))
    arguments = (
        ArgumentPlace(0, 8, "global_buffer"),
        ArgumentPlace(12, 12, "by_value"),
        ArgumentPlace(24, 0, "hidden_none"),
    )
    assert found == {
        "all": CodeObjectKernel("all", "all.kd", arguments, 512, (2, 3, 5), 30, 32),
        "k": CodeObjectKernel("k", "k.kd", (), 0, None, 0, 64),
        "l": CodeObjectKernel("l", "l.kd", (), 0, None, 0, 64),
    }
    assert found["all"].visible_arguments == arguments[:2]
    assert found["all"].places == [(8, 8), (12, 4)]
    others = [(0, 48), (32, 3), (4, 0), (0, 0), (6, 64), (48, 64)]
    places = [ArgumentPlace(offset, size, "by_value") for offset, size in others]
    assert found["k"]._replace(arguments=tuple(places)).places == [
        (48, 16),
        (3, 1),
        (0, 1),
        (0, 1),
        (64, 2),
        (64, 16),
    ]


DAMAGED_METADATA = [
    (kernel("k", (16, 9, "by_value")), "ValueError: an argument ends outside the argument buffer"),
    (kernel("k", (-1, 8, "by_value")), "ValueError: -1 is not an integer from 0 to 2**32 - 1"),
    (kernel(wavefront_size=1 << 32), "ValueError: 4294967296 is not an integer"),
    (kernel(wavefront_size=True), "ValueError: True is not an integer"),
    (kernel(reqd_workgroup_size=[1, 2]), "ValueError: not enough values"),
    (kernel(symbol=b"k"), "TypeError: b'k' is not a string"),
    ({".name": "k"}, "KeyError: '.kernarg_segment_size'"),
    (7, "TypeError: "),
]


@pytest.mark.parametrize(("entry", "problem"), DAMAGED_METADATA)
def test_damaged_metadata(entry: Any, problem: str) -> None:
    with pytest.raises(FormatError) as error:
        read_code_object(metadata(note([entry])))
    assert f"its metadata cannot be read: {problem}" in str(error.value)


def test_the_limits_of_metadata() -> None:
    most = 1 << 16
    for key, made in (
        ("later", lambda count: [0] * count),
        ("later", lambda count: dict.fromkeys(map(str, range(count)), 0)),
    ):
        assert len(read_code_object(metadata(note([kernel()], **{key: made(most)})))) == 1
        with pytest.raises(FormatError, match="ValueError: 65537 exceeds max_"):
            read_code_object(metadata(note([kernel()], **{key: made(most + 1)})))
    with pytest.raises(FormatError, match="exceeds max_ext_len"):
        read_code_object(metadata(note([kernel()], later=msgpack.ExtType(5, b"x"))))
    wide = kernel("k", (16, 8, "by_value"), wavefront_size=(1 << 32) - 1)
    assert read_code_object(metadata(note([wide])))["k"].wave == (1 << 32) - 1


def test_notes_outside_of_their_section() -> None:
    good = note([kernel()])
    assert [*read_code_object(metadata(good))] == ["k"]
    with pytest.raises(FormatError, match="a note ends outside its section"):
        read_code_object(metadata(good[:-4]))
    for size, problem in (
        (64, "its section headers end outside the file"),
        (63, "64-bit ELF file"),
    ):
        data = b"\x7fELF\2\1" + bytes(size - 6)
        with pytest.raises(FormatError, match=problem):
            read_code_object(data)
