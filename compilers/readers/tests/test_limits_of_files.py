"""The limits on what is read of a file: the most that is taken, and one more."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]
import pytest
from containers import PTX, archive, bundle, compressed, elf_file, frames, pack_binary
from each_case import raised

from devmod.errors import FormatError
from devmod_readers.offload import read_images
from devmod_readers.spirv import read_module
from devmod_readers.variables import read_variables

BLOBS = [{"offset": 64, "size": len(PTX)}, {"offset": 64, "size": 0}]
PLAIN = {"compression_scheme": "none", "blobs": BLOBS}


def kpack(first: str, *others: str, arch: str = "gfx900", **table: Any) -> bytes:
    """Return an archive of PTX and of code objects without bytes."""
    toc = {first: {arch: {"ordinal": 0}}}
    for name in others:
        toc[name] = {arch: {"ordinal": 1}}
    return archive(toc, PTX, **PLAIN, **table)


def strings(count: int) -> bytes:
    """Return an OffloadBinary with a string several times."""
    size = 72 + 16 * count + 7 + len(PTX)
    entry = struct.pack("<HHIQQQQ", 0, 2, 0, 72, count, size - len(PTX), len(PTX))
    start = 72 + 16 * count
    pairs = struct.pack("<QQ", start, start) * count
    head = b"\x10\xff\x10\xad" + struct.pack("<IQQQ", 1, size, 32, 40)
    return head + entry + pairs + b"triple\0" + PTX


def entries(count: int, name: bytes = b"") -> bytes:
    """Return a bundle of PTX and of entries without bytes."""
    start = 32 + 24 * count + len(name) * count
    table = [(start, len(PTX), name)] + [(start, 0, name)] * (count - 1)
    return bundle(*table, data=PTX)


def containers(depth: int) -> bytes:
    """Return PTX in so many bundles."""
    data = PTX
    for _ in range(depth):
        data = bundle((32 + 24, len(data), b""), data=data)
    return data


def hosts(depth: int) -> bytes:
    """Return PTX in so many ELF files of a host."""
    data = PTX
    for _ in range(depth):
        data = elf_file([(".hip_fatbin", 1, data, 0)], 62)
    return data


class Limit(NamedTuple):
    """The limit of a file.

    Attributes
    ----------
    most
        The most that is taken.
    make
        Returns a file with so many.
    problem
        A part of the error of one more.
    """

    most: int
    make: Callable[[int], bytes]
    problem: str


LIMITS = {
    "the images": Limit(
        4096, lambda count: entries(1) * count, "the container has more than 4096 images"
    ),
    "the containers in each other": Limit(8, containers, "more than 8 containers enclose an image"),
    "the hosts in each other": Limit(8, hosts, "more than 8 containers enclose an image"),
    "the entries of a bundle": Limit(4096, entries, "has 4097 entries; expected at most 4096"),
    "the name in a bundle": Limit(
        1024,
        lambda count: entries(1, b"x" * count),
        "has a name of 1025 bytes; expected at most 1024",
    ),
    "the strings of an OffloadBinary": Limit(64, strings, "has 65 strings; expected at most 64"),
    "the string of an OffloadBinary": Limit(
        1023,
        lambda count: pack_binary(PTX, b"x" * count),
        "has a string without an end: 'xxx",
    ),
    "the code objects of an archive": Limit(
        4096,
        lambda count: kpack(*map(str, range(count))),
        "has more than 4096 code objects",
    ),
    "the name in an archive": Limit(
        1024, lambda count: kpack("x" * count), "expected a map of files"
    ),
    "the architecture in an archive": Limit(
        1024, lambda count: kpack("a", arch="x" * count), "expected a map of files"
    ),
    "an array of an archive": Limit(
        1 << 16,
        lambda count: kpack("a", later=[0] * count),
        "ValueError: 65537 exceeds max_array_len",
    ),
    "a map of an archive": Limit(
        1 << 16,
        lambda count: kpack("a", later={str(number): 0 for number in range(count)}),
        "ValueError: 65537 exceeds max_map_len",
    ),
    "a text of an archive": Limit(
        1 << 16,
        lambda count: kpack("a", later="x" * count),
        "ValueError: 65537 exceeds max_str_len",
    ),
    "bytes of an archive": Limit(
        1 << 16,
        lambda count: kpack("a", later=b"x" * count),
        "ValueError: 65537 exceeds max_bin_len",
    ),
    "an extension of an archive": Limit(
        0,
        lambda count: kpack("a", later=[msgpack.ExtType(5, b"x")] * count),
        "exceeds max_ext_len",
    ),
}


@pytest.mark.row("R41")
@pytest.mark.parametrize("name", LIMITS)
def test_the_limit_of_a_container(name: str) -> None:
    limit = LIMITS[name]
    images = read_images(limit.make(limit.most))
    assert bytes(images[0].data) == PTX
    error = raised(FormatError, read_images, limit.make(limit.most + 1))
    assert limit.problem in str(error)


@pytest.mark.row("R41")
def test_the_frames_of_an_archive() -> None:
    for count, problem in (
        (4096, "the number 5000; expected a number below 4096"),
        (4097, "has 4097 frames; expected at most 4096"),
    ):
        toc = {"a": {"gfx900": {"ordinal": 5000, "original_size": 1}}}
        error = raised(FormatError, read_images, archive(toc, frames(*[b""] * count)))
        assert problem in str(error)


@pytest.mark.row("R41")
def test_the_table_of_an_archive() -> None:
    """It has at most 16 MiB."""
    text = "x" * (1 << 16)
    most = 1 << 24
    empty = len(kpack("a", later=[""] * 255, last="")) - len(PTX) - 64
    filled = empty + 255 * ((1 << 16) + 4)
    last = most - filled - 2
    for more in (0, 1):
        data = kpack("a", later=[text] * 255, last="x" * (last + more))
        assert len(data) == 64 + len(PTX) + most + more
        if more:
            assert "OutOfData" in str(raised(FormatError, read_images, data))
        else:
            assert len(read_images(data)) == 1


@pytest.mark.row("R41")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_ratio_of_a_compressed_bundle(version: int) -> None:
    contents = bytes(entries(1))
    stored = len(compressed(version, contents=contents)) - {1: 20, 2: 24, 3: 32}[version]
    problem = f"has {1024 * stored + 1} bytes after decompression of {stored}"
    data = compressed(version, contents=contents, length=1024 * stored + 1)
    assert problem in str(raised(FormatError, read_images, data))
    data = compressed(version, contents=contents, length=1024 * stored)
    assert problem not in str(raised(FormatError, read_images, data))
    assert bytes(read_images(compressed(version, contents=contents))[0].data) == PTX


@pytest.mark.row("R41")
def test_the_variables_of_an_image() -> None:
    lines = [b".global .u32 x%d;\n" % number for number in range((1 << 16) + 1)]
    assert len(read_variables(b"".join(lines))) == 1 << 16
    assert len(read_variables(b"".join(lines[:-1]))) == 1 << 16
    assert len(read_variables(b"".join(lines[:-2]))) == (1 << 16) - 1
    for size in (4096, 4097):
        found = read_variables(b".global .u32 " + b"x" * size + b";")
        assert [*found] == ["x" * 4096]


@pytest.mark.row("R41")
def test_the_bytes_of_a_spirv_module() -> None:
    most = 64 << 20
    magic = "begins with 0x00000000; expected SPIR-V's magic number 0x07230203"
    assert str(raised(FormatError, read_module, bytes(most))) == magic
    larger = f"has {most + 1} bytes; expected at most 64 MiB"
    assert str(raised(FormatError, read_module, bytes(most + 1))) == larger


def unpacked_to_the_limit(more: int) -> bytes:
    """Return a compressed bundle of PTX that has the most bytes which a file of its size may have
    after decompression, and more.
    """
    host, start = b"host-x86_64", 32 + 2 * 24 + 11
    filler = Random(1).randbytes(5000)
    count = 1 << 20
    for _ in range(50):
        rest = filler + bytes(count - start - len(PTX) - len(filler))
        entries = ((start, len(PTX), b""), (start + len(PTX), len(rest), host))
        data = compressed(2, contents=bundle(*entries, data=PTX + rest))
        most = (1 << 20) + 256 * len(data) + more
        if most == count:
            return data
        count = most
    raise AssertionError("the size does not settle")


@pytest.mark.row("R41")
def test_the_bytes_of_a_file_after_decompression() -> None:
    """They are at most 1 MiB and 256 for each byte of the file."""
    assert bytes(read_images(unpacked_to_the_limit(0))[0].data) == PTX
    error = raised(FormatError, read_images, unpacked_to_the_limit(1))
    assert "bytes after decompression, which is over the limit" in str(error)
