"""Recorded containers of device code, and containers made of their parts."""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import pack, unpack
from typing import Any

import msgpack  # type: ignore[import-untyped]

FOLDER = Path(__file__).parent / "vectors/offload"
#: The images in the containers.
TRITON = Path(__file__).parents[3] / "compilers/targets/tests/vectors/triton"
HSACO = (TRITON / "add.hip.hsaco").read_bytes()
CUBIN = (TRITON / "add.cuda.cubin").read_bytes()
PTX = (TRITON / "add.cuda.ptx").read_bytes()
PLAIN = (FOLDER / "plain.bundle").read_bytes()
ZSTD = (FOLDER / "zstd.bundle").read_bytes()
BINARY = (FOLDER / "images.offloadbinary").read_bytes()
FATBIN = (FOLDER / "images.fatbin").read_bytes()
HIP = ("rocm", "hsaco", "hipv4-amdgcn-amd-amdhsa--gfx1100", HSACO)
AMD = ("rocm", "hsaco", "amdgcn-amd-amdhsa-gfx1100", HSACO)
NVIDIA = [
    ("cuda", fmt, "nvptx64-nvidia-cuda-sm_90a", data)
    for fmt, data in (("cubin", CUBIN), ("ptx", PTX))
]


def compressed(version: int, method: int = 0, contents: bytes = PLAIN, **sizes: int) -> bytes:
    """Return a compressed bundle of the documented layout."""
    data = zlib.compress(contents)
    length = sizes.get("length", len(contents))
    if version == 1:
        return pack("<4sHHIQ", b"CCOB", version, method, length, 7) + data
    layout = "<4sHHIIQ" if version == 2 else "<4sHHQQQ"
    header = 24 if version == 2 else 32
    return (
        pack(layout, b"CCOB", version, method, sizes.get("total", header + len(data)), length, 7)
        + data
    )


def pack_binary(image: bytes, triple: bytes = b"nvptx64", **fields: int) -> bytes:
    """Return an OffloadBinary with one string."""
    strings = pack("<QQ", 88, 95)
    texts = b"triple\0" + triple + b"\0"
    start = 88 + len(texts)
    entry = pack(
        "<HHIQQQQ", 0, 2, 0, 72, fields.get("strings", 1), start, fields.get("length", len(image))
    )
    size = fields.get("size", start + len(image))
    return (
        b"\x10\xff\x10\xad"
        + pack("<IQQQ", fields.get("version", 1), size, 32, fields.get("entry", 40))
        + entry
        + strings
        + texts
        + image
    )


def bundle(*entries: tuple[int, int, bytes], count: int | None = None, data: bytes = b"") -> bytes:
    table = b"".join(pack("<QQQ", offset, size, len(name)) + name for offset, size, name in entries)
    return (
        b"__CLANG_OFFLOAD_BUNDLE__"
        + pack("<Q", len(entries) if count is None else count)
        + table
        + data
    )


def archive(
    toc: Any, data: bytes = b"", /, *, offset: int | None = None, version: int = 1, **fields: Any
) -> bytes:
    """Return an archive. The table has the scheme "zstd-per-kernel" unless `fields` have another
    one.
    """
    table = {
        "compression_scheme": "zstd-per-kernel",
        "zstd_offset": 64,
        "zstd_size": len(data),
        "toc": toc,
    } | fields
    start = 64 + len(data) if offset is None else offset
    return pack("<4sIQ", b"KPAK", version, start) + bytes(48) + data + bytes(msgpack.packb(table))


def frames(*each: bytes) -> bytes:
    return pack("<I", len(each)) + b"".join(pack("<I", len(frame)) + frame for frame in each)


#: A section: its name, its type, its contents, and the number of another one.
Section = tuple[str, int, bytes, int]


def elf_file(sections: list[Section], machine: int) -> bytes:
    """Return an ELF file of 64 bits with sections, behind an empty one."""
    names = b"\0"
    rows = [bytes(64)]
    body = b""
    table = [*sections, (".shstrtab", 3, b"", 0)]
    for name, kind, data, info in table:
        start = len(names)
        names += name.encode() + b"\0"
        place, size = 64 + len(body), len(data)
        if kind == 8:
            size, data = len(data), b""
        body += data
        rows.append(pack("<IIQQQQIIQQ", start, kind, 0, 0, place, size, 0, info, 0, 0))
    last = unpack("<IIQQQQIIQQ", rows[-1])
    rows[-1] = pack("<IIQQQQIIQQ", *last[:4], 64 + len(body), len(names), *last[6:])
    body += names
    head = b"\x7fELF\2\1\1" + bytes(9)
    head += pack(
        "<HHIQQQIHHHHHH",
        2,
        machine,
        1,
        0,
        0,
        64 + len(body),
        0,
        64,
        0,
        0,
        64,
        len(rows),
        len(rows) - 1,
    )
    return head + body + b"".join(rows)
