"""The fields of cubins, fatbins and PTX, each with a value of its own and at its limits."""

from __future__ import annotations

import struct

import pytest
from containers import Section, elf_file
from each_case import refusal

from devmod.errors import FormatError
from devmod_readers.nvidia import KernelEntry, ParamPlace, fatbin_members, read_cubin, read_ptx

# -- cubins


def symbol(section: int, info: int = 0x12, other: int = 0x10) -> bytes:
    return struct.pack("<IBBHQQ", 0, info, other, section, 0, 0)


def cubin(attributes: bytes, *more: Section, symbols: bytes = symbol(2)) -> bytes:
    """Return a cubin of the kernel k, whose code is section 2."""
    record = (".nv.info.k", 0x70000000, attributes, 2)
    return elf_file([record, (".text.k", 1, b"code", 0), (".symtab", 2, symbols, 0), *more], 190)


def sized(number: int, data: bytes) -> bytes:
    return struct.pack("<BBH", 4, number, len(data)) + data


def short(form: int, number: int, value: int = 0) -> bytes:
    return struct.pack("<BBH", form, number, value)


def parameter(ordinal: int, offset: int, size: int, number: int = 0x17) -> bytes:
    word = size << 18 | 0x3FFFF
    if number == 0x45:
        word = size | 0xABC << 16
    return sized(number, struct.pack("<IHHI", 7, ordinal, offset, word))


BYTES = short(3, 0x19, 24)
BOTH = parameter(1, 16, 8) + parameter(0, 3, 12)
PLACES = (ParamPlace(3, 12), ParamPlace(16, 8))
#: The attributes of a kernel, and what they say of it.
ATTRIBUTES: dict[str, tuple[bytes, KernelEntry]] = {
    "none": (b"", KernelEntry("k", ())),
    "bytes alone": (BYTES, KernelEntry("k", None)),
    "parameters": (BYTES + BOTH, KernelEntry("k", PLACES)),
    "parameters of the second form": (
        BYTES + parameter(1, 16, 8, 0x45) + parameter(0, 3, 12, 0x45),
        KernelEntry("k", PLACES),
    ),
    "bytes of the bank": (
        BOTH + sized(0x0A, struct.pack("<IHH", 9, 5, 24)),
        KernelEntry("k", PLACES),
    ),
    "a reference": (parameter(0, 0xFFFF, 8), KernelEntry("k", (ParamPlace(0, 0),))),
    "parameters up to the end": (
        short(3, 0x19, 24) + parameter(0, 16, 8),
        KernelEntry("k", (ParamPlace(16, 8),)),
    ),
    "a parameter without bytes": (
        BYTES + parameter(0, 0, 8) + parameter(1, 4, 0),
        KernelEntry("k", (ParamPlace(0, 8), ParamPlace(4, 0))),
    ),
    "a required block": (
        sized(0x10, struct.pack("<III", 2, 3, 5)),
        KernelEntry("k", (), (2, 3, 5)),
    ),
    "the most threads": (
        sized(0x05, struct.pack("<III", 2, 3, 5)),
        KernelEntry("k", (), max_threads=30),
    ),
    "a cluster": (
        sized(0x3D, struct.pack("<III", 2, 3, 5)) + sized(0x3F, struct.pack("<I", 70000)),
        KernelEntry("k", (), cluster=(2, 3, 5), max_cluster=70000),
    ),
    "an explicit cluster": (short(1, 0x3E), KernelEntry("k", (), explicit_cluster=True)),
    "a grid of clusters": (short(1, 0x5B), KernelEntry("k", (), blocks_are_clusters=True)),
    "unknown ones": (
        sized(0x99, b"xyz") + short(2, 0x98, 9) + short(1, 0x3E) + b"\1\2\3",
        KernelEntry("k", (), explicit_cluster=True),
    ),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_the_attributes_of_a_kernel(name: str) -> None:
    attributes, entry = ATTRIBUTES[name]
    assert read_cubin(cubin(attributes)) == {"k": entry}


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        (sized(0x05, bytes(11)), "the attribute 0x5 of the kernel 'k' has 11 bytes; expected 12"),
        (sized(0x0A, bytes(7)), "the attribute 0xa of the kernel 'k' has 7 bytes; expected 8"),
        (sized(0x3F, bytes(3)), "the attribute 0x3f of the kernel 'k' has 3 bytes; expected 4"),
        (short(3, 0x10), "the attribute 0x10 of the kernel 'k' has 2 bytes; expected 12"),
        (sized(0x99, b"xyz")[:-1], "the attribute 0x99 is outside of its section"),
        (BOTH + parameter(1, 0, 1), "the kernel 'k' has two parameters of the number 1"),
        (
            BYTES + parameter(1, 16, 8),
            "the kernel 'k' has 1 parameters, and their numbers are not 0 to 0",
        ),
        (
            BYTES + parameter(0, 0, 8) + parameter(1, 7, 1),
            "a parameter of the kernel 'k' begins at byte 7, and the one before it ends at byte 8",
        ),
        (
            short(3, 0x19, 23) + BOTH,
            "the parameters of the kernel 'k' end at byte 24, and the kernel has 23 bytes of parameters",
        ),
    ],
)
def test_attributes_that_are_refused(attributes: bytes, problem: str) -> None:
    assert refusal(FormatError, read_cubin, cubin(attributes)) == f"the cubin is invalid: {problem}"


@pytest.mark.parametrize(
    ("symbols", "names"),
    [
        (symbol(2), ["k"]),
        (symbol(1) + symbol(2), ["k"]),
        (symbol(3), []),
        (symbol(2, other=0), []),
        (symbol(2, info=0x11), []),
        (symbol(2, info=0x22, other=0xF0), ["k"]),
        (symbol(2)[:-1], []),
        (symbol(2) + b"rest", ["k"]),
    ],
)
def test_the_symbols_of_kernels(symbols: bytes, names: list[str]) -> None:
    assert [*read_cubin(cubin(b"", symbols=symbols))] == names


def test_the_shared_memory_of_kernels() -> None:
    memory = (".nv.shared.k", 8, bytes(40), 0)
    assert read_cubin(cubin(b"", memory))["k"].static_shared_memory == 40
    assert read_cubin(cubin(b"", (".nv.shared.l", 8, bytes(40), 0)))["k"].static_shared_memory == 0
    assert read_cubin(cubin(b"", (".nv.shared.k", 1, bytes(40), 0)))["k"].static_shared_memory == 0
    reserved = (".nv.shared.reserved.0", 8, bytes(1024), 0)
    assert read_cubin(cubin(b"", memory, reserved))["k"].static_shared_memory == 0
    again = (".nv.info.k", 0x70000000, b"", 2)
    problem = "the cubin is invalid: it has two sections '.nv.info.k'"
    assert refusal(FormatError, read_cubin, cubin(b"", again)) == problem
    problem = "the cubin is invalid: its machine is 191; expected 190 (CUDA)"
    assert refusal(FormatError, read_cubin, elf_file([], 191)) == problem


# -- fatbins


def member(data: bytes, kind: int = 2, **changed: int) -> bytes:
    """Return a member of sm_75, whose header is longer than usual."""
    fields = {"head": 72, "size": len(data), "packed": 0, "arch": 75, "flags": 0, "plain": 0}
    fields |= changed
    head = struct.pack(
        "<HHIQIIIIQQQQQ",
        kind,
        0x101,
        fields["head"],
        fields["size"],
        fields["packed"],
        0,
        0,
        fields["arch"],
        0,
        fields["flags"],
        0,
        fields["plain"],
        0,
    )
    return head + data


def fatbin(*members: bytes, head: int = 20, size: int | None = None) -> bytes:
    body = b"".join(members)
    if size is None:
        size = len(body)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, head, size) + bytes(max(head - 16, 0)) + body


def shown(data: bytes) -> list[tuple[str, str, str, int, bytes]]:
    return [
        (each.kind, each.header_arch, each.compression, each.size, bytes(each.stored))
        for each in fatbin_members(data)
    ]


LZ4, ZSTD, SPECIFIC, FAMILY = 1 << 13, 1 << 15, 1 << 20, 1 << 21


def test_the_members_of_a_fatbin() -> None:
    data = fatbin(
        member(b"abc"),
        member(b"ptx\0", 1, arch=90),
        member(b"x", 3, flags=SPECIFIC),
        member(b"y", flags=FAMILY),
        member(b"z", flags=FAMILY | SPECIFIC),
        member(b"pack??", flags=LZ4, packed=4, plain=9),
        member(b"pack??", flags=ZSTD, packed=5, plain=99),
        member(b""),
    )
    assert shown(data + fatbin(member(b"second"), head=16) + bytes(7)) == [
        ("cubin", "sm_75", "", 3, b"abc"),
        ("ptx", "compute_90", "", 4, b"ptx\0"),
        ("type3", "sm_75a", "", 1, b"x"),
        ("cubin", "sm_75f", "", 1, b"y"),
        ("cubin", "sm_75a", "", 1, b"z"),
        ("cubin", "sm_75", "lz4", 9, b"pack"),
        ("cubin", "sm_75", "zstd", 99, b"pack?"),
        ("cubin", "sm_75", "", 0, b""),
        ("cubin", "sm_75", "", 6, b"second"),
    ]
    assert shown(fatbin()) == []
    assert shown(fatbin(head=16)) == []  # a header alone
    assert fatbin_members(data)[1].data == b"ptx"


def test_the_architecture_of_a_member_is_its_images_where_that_can_be_read() -> None:
    text = b".version 8.4\n.target sm_90\n.address_size 64\n\0"
    packed = {"flags": LZ4, "packed": len(text), "plain": 99}
    members = [member(text, 1), member(text, 1, **packed), member(text, 3)]
    archs = [each.arch for each in fatbin_members(fatbin(*members))]
    assert archs == ["compute_90:ptx8.4", "compute_75", "sm_75"]


ONE = fatbin(member(b"abc"))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (ONE[:15], "expected the magic 0xba55ed50 at byte 0"),
        (ONE + b"\1", f"expected the magic 0xba55ed50 at byte {len(ONE)}"),
        (fatbin(member(b""), head=15), "its header at byte 0 has 72 bytes of members"),
        (ONE[:-1], "its header at byte 0 has 75 bytes of members"),
        (fatbin(member(b"")[:63], size=63), "the header of a member at byte 20 is incomplete"),
        (fatbin(member(b"", head=63)), "the member at byte 20 is outside of its fatbin"),
        (fatbin(member(b"abc", size=4)), "the member at byte 20 is outside of its fatbin"),
        (fatbin(member(b"abc", packed=4)), "the member at byte 20 is outside of its fatbin"),
        (
            fatbin(member(b"abcd", flags=LZ4, packed=3, plain=3 * 256 + 1)),
            "the member at byte 20 has 769 bytes after decompression of 3, which is over the limit",
        ),
        (
            fatbin(member(b"abcd", flags=ZSTD, packed=3, plain=(3 << 15) + 1)),
            "the member at byte 20 has 98305 bytes after decompression of 3, which is over the limit",
        ),
        (fatbin(*[member(b"", head=64)[:64]] * 4097), "it has more than 4096 members"),
    ],
)
def test_a_fatbin_that_is_refused(data: bytes, problem: str) -> None:
    found = refusal(FormatError, fatbin_members, data)
    assert found.startswith(f"the CUDA fatbin is invalid: {problem}")


def test_the_limits_of_a_fatbin() -> None:
    assert len(fatbin_members(fatbin(*[member(b"", head=64)[:64]] * 4096))) == 4096
    for flag, ratio in ((LZ4, 256), (ZSTD, 1 << 15)):
        data = fatbin(member(b"abcd", flags=flag, packed=3, plain=3 * ratio))
        assert fatbin_members(data)[0].size == 3 * ratio
    # All members together: 1 MiB, and 256 bytes for each byte of the file.
    packed = {"flags": ZSTD, "packed": 32}
    first = member(bytes(32), plain=1 << 20, **packed)
    size = len(fatbin(first, first))
    second = member(bytes(32), plain=256 * size, **packed)
    assert len(fatbin_members(fatbin(first, second))) == 2
    second = member(bytes(32), plain=256 * size + 1, **packed)
    assert "over the limit" in refusal(FormatError, fatbin_members, fatbin(first, second))


#: Blocks of LZ4, and their contents.
BLOCKS = [
    (b"", b""),
    (b"\x30abc", b"abc"),
    (b"\xf0\x00" + b"a" * 15, b"a" * 15),
    (b"\xf0\xff\x02" + b"b" * 272, b"b" * 272),
    (b"\x31abc\x02\x00\x10d", b"abcbcbcbd"),
    (b"\x30abc\x03\x00\x20de", b"abcabcade"),
    (b"\x3fabc\x01\x00\x03\x10d", b"abc" + b"c" * 22 + b"d"),
    (b"\x3fabc\x01\x00\xff\x00\x00", b"abc" + b"c" * 274),
]


@pytest.mark.parametrize(("block", "contents"), BLOCKS)
def test_a_member_of_lz4(block: bytes, contents: bytes) -> None:
    def make(size: int) -> bytes:
        return fatbin(member(block, flags=LZ4, packed=len(block), plain=size))

    assert fatbin_members(make(len(contents)))[0].data == contents
    for size in (len(contents) - 1, len(contents) + 1):
        if size >= 0:
            (each,) = fatbin_members(make(size))
            assert "LZ4" in refusal(FormatError, getattr, each, "data")


# -- PTX

HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"


@pytest.mark.parametrize(
    ("declaration", "place"),
    [
        (".b8 a[65536]", ParamPlace(0, 65536, 1, "b8")),
        (".b8 a[256][0x100]", ParamPlace(0, 65536, 1, "b8")),
        (".align 1024 .f64 a", ParamPlace(0, 8, 1024, "f64")),
        (".align 1 .s16 a[0b11]", ParamPlace(0, 6, 1, "s16")),
        (".u64 .ptr .align 3 a", ParamPlace(0, 8, 8, "u64", is_pointer=True)),
        (".b8 a[65537]", None),
        (".b8 a[256][257]", None),
        (".b16 a[32769]", None),
        (".align 2048 .f64 a", None),
        (".align 0 .f64 a", None),
        (".align 12 .f64 a", None),
        (".b8 a[08]", None),
        (".align 4 a", None),
    ],
)
def test_the_parameter_of_ptx(declaration: str, place: ParamPlace | None) -> None:
    text = f"{HEAD}.entry k(.param {declaration}) {{}}"
    if place is None:
        assert "the PTX is invalid at line 4: the kernel 'k' has " in refusal(
            FormatError, read_ptx, text
        )
    else:
        assert read_ptx(text)["k"].params == (place,)


def test_the_length_of_a_parameter_of_ptx() -> None:
    for more in (0, 1):
        name = "x" * ((1 << 16) - len(".param .u32 ") + more)
        text = f"{HEAD}.entry k(.param .u32 {name}) {{}}"
        if more:
            assert "the invalid parameter" in refusal(FormatError, read_ptx, text)
        else:
            assert read_ptx(text)["k"].params == (ParamPlace(0, 4, 4, "u32"),)


@pytest.mark.parametrize(
    ("numbers", "block"),
    [
        ("7", (7, 1, 1)),
        ("7, 3", (7, 3, 1)),
        ("7,3,2", (7, 3, 2)),
        ("2147483647", (2147483647, 1, 1)),
        ("0x10", (16, 1, 1)),
        ("010", (8, 1, 1)),
        ("2147483648", None),
        ("1, 1, 1, 1", None),
        ("1, 0", None),
        ("x", None),
    ],
)
def test_the_block_of_ptx(numbers: str, block: tuple[int, int, int] | None) -> None:
    text = f"{HEAD}.entry k() .reqntid {numbers} {{}}"
    if block is None:
        assert f"the directive .reqntid with {numbers!r}" in refusal(FormatError, read_ptx, text)
    else:
        assert read_ptx(text)["k"].block == block
