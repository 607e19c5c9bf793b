"""Containers of device code: recorded ones of LLVM's and NVIDIA's tools, other versions of them,
and damaged ones.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import pytest
from backend_checks import check_error
from containers import (
    AMD,
    BINARY,
    CUBIN,
    FATBIN,
    FOLDER,
    HIP,
    HSACO,
    NVIDIA,
    PLAIN,
    PTX,
    ZSTD,
    Section,
    bundle,
    compressed,
    elf_file,
    pack_binary,
)
from each_case import refusal
from zstandard_library import NAME, zstd

import devmod
from devmod_readers.offload import read_images

pytestmark = pytest.mark.once  # bytes, which the readers read themselves


def images(data: Any) -> list[tuple[str, str, str, bytes]]:
    return [(*image[:3], bytes(image.data)) for image in read_images(data)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (PLAIN, [HIP]),
        (PLAIN + bytes(4096) + PLAIN, [HIP, HIP]),
        (ZSTD, [HIP]),
        (ZSTD + bytes(9) + PLAIN, [HIP, HIP]),
        (compressed(1), [HIP]),
        (compressed(2), [HIP]),
        (compressed(3) + compressed(2), [HIP, HIP]),
        (compressed(3, contents=compressed(2)), [HIP]),
        (BINARY, [AMD, *NVIDIA]),
        ((FOLDER / "offloading.o").read_bytes(), [AMD, *NVIDIA]),
        (CUBIN, [("cuda", "cubin", "", CUBIN)]),
        (HSACO, [("rocm", "hsaco", "", HSACO)]),
        (PTX, [("cuda", "ptx", "", PTX)]),
    ],
)
def test_images(data: bytes, expected: list[tuple[str, str, str, bytes]]) -> None:
    assert images(data) == expected
    assert images(bytearray(data)) == expected


def test_fatbins_and_the_sections_of_a_host() -> None:
    (cubin, ptx), host = images(FATBIN), images(FOLDER / "fatbins.o")
    assert cubin == ("cuda", "cubin", "sm_90a", CUBIN)
    assert ptx[:3] == ("cuda", "ptx", "compute_90a:ptx9.4")
    assert host == [cubin, ptx, HIP]
    assert images(str(FOLDER / "fatbins.o")) == host


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"hello",
            "the container is not supported: expected a CUDA fatbin, an offload bundle, an OffloadBinary, a kpack archive, PTX, or an ELF file, got "
            "b'hello' at its start",
        ),
        (
            PLAIN + b"xyz",
            "the container is invalid: expected the magic of a container at byte 4172, got b'xyz'",
        ),
        (PLAIN[:30], "the offload bundle at byte 0 is outside of the file: bytes 24 to 32 of 30"),
        (
            bundle(count=2**40),
            "the offload bundle at byte 0 has 1099511627776 entries; expected at most 4096",
        ),
        (
            bundle((0, 0, b"x" * 2000)),
            "entry 1 of the offload bundle at byte 0 has a name of 2000 bytes; expected at most 1024",
        ),
        (
            bundle((60, 9, b"hip")),
            "entry 1 of the offload bundle at byte 0 is outside of the file: bytes 60 to 69 of 59",
        ),
        (
            bundle((0, 80, b"hip"), (0, 80, b"hip")),
            "the offload bundle at byte 0 is invalid: its entries overlap",
        ),
        (
            compressed(4),
            "the compressed offload bundle at byte 0 has version 4; devmod reads versions 1 to 3",
        ),
        (
            compressed(2, method=9),
            "the compressed offload bundle at byte 0 has the compression method 9; devmod reads 0 (zlib) and 1 (zstd)",
        ),
        (
            compressed(2, total=9),
            "the compressed offload bundle at byte 0 is invalid: its size is 9 bytes",
        ),
        (
            compressed(2, total=9999),
            "the compressed offload bundle at byte 0 is outside of the file: bytes 0 to 9999 of {size}",
        ),
        (
            compressed(2, length=4000),
            "the compressed offload bundle at byte 0 is damaged: expected 4000 bytes after decompression, got 4001",
        ),
        (
            compressed(2, length=5000),
            "the compressed offload bundle at byte 0 is damaged: expected 5000 bytes after decompression, got 4172",
        ),
        (
            compressed(2, length=2**31),
            "the compressed offload bundle at byte 0 has 2147483648 bytes after decompression of {data}, which is over the limit",
        ),
        (
            compressed(1)[:-300],
            "the compressed offload bundle at byte 0 is damaged: expected 4172 bytes after decompression, got {short}",
        ),
        (
            compressed(1)[:-2],
            "the compressed offload bundle at byte 0 is damaged: its compressed data has no end",
        ),
        (
            ZSTD[:12] + pack("<I", 4171) + ZSTD[16:],
            "the compressed offload bundle at byte 0 is damaged: expected 4171 bytes after decompression, got 4172",
        ),
        (
            pack_binary(CUBIN, version=3),
            "the OffloadBinary at byte 0 has version 3; devmod reads version 1",
        ),
        (
            pack_binary(CUBIN)[:-1],
            "the OffloadBinary at byte 0 is outside of the file: bytes 0 to 4223 of 4222",
        ),
        (
            pack_binary(CUBIN, size=20),
            "the OffloadBinary at byte 0 is invalid: its size is 20 bytes, and that of its entry 40",
        ),
        (
            pack_binary(CUBIN, strings=10**6),
            "the OffloadBinary at byte 0 has 1000000 strings; expected at most 64",
        ),
        (
            pack_binary(b"", length=1),
            "the image of the OffloadBinary at byte 0 is outside of the file: bytes 103 to 104 of 103",
        ),
        (
            pack_binary(b"", triple=b"x" * 2000).rstrip(b"\0"),
            "the OffloadBinary at byte 0 is outside of the file: bytes 0 to 2096 of 2095",
        ),
        (
            pack_binary(b"", triple=b"x" * 2000),
            "the OffloadBinary at byte 0 has a string without an end: "
            + f"{'x' * 100!r}… (1024 characters)",
        ),
        (
            b"\x7fELF\x02\x01" + bytes(12) + pack("<H", 62) + bytes(44),
            "the host's ELF file has no device code: expected a section .nv_fatbin, .hip_fatbin or .llvm.offloading",
        ),
        (
            b"\x7fELF\x01\x01" + bytes(12) + pack("<H", 3) + bytes(44),
            "the host's file is not supported: expected a 64-bit little-endian ELF file",
        ),
        (
            (FOLDER / "offloading.o").read_bytes()[:-9],
            "the host's ELF file is damaged: its table of sections is outside of the file",
        ),
    ],
)
def test_a_damaged_container_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(devmod.FormatError) as caught:
        read_images(data)
    short = len(zlib.decompressobj().decompress(compressed(1)[20:-300]))
    sizes = {"size": len(data), "data": len(data) - 24, "short": short} if "{" in message else {}
    assert str(caught.value) == (message.format(**sizes) if sizes else message)


def test_zstd_without_its_checksum_is_an_error() -> None:
    data = zstd.compress(PLAIN, options={zstd.CompressionParameter.checksum_flag: 1})[:-2]
    assert (
        refusal(
            devmod.FormatError,
            read_images,
            pack("<4sHHIIQ", b"CCOB", 2, 1, 24 + len(data), len(PLAIN), 7) + data,
        )
        == "the compressed offload bundle at byte 0 is damaged: its compressed data has no end"
    )


def test_the_entry_of_the_host_is_no_image() -> None:
    names = [b"host-x86_64-unknown-linux-gnu-", HIP[2].encode()]
    start = 32 + sum(24 + len(name) for name in names)
    data = bundle((start, 4, names[0]), (start + 4, len(HSACO), names[1]), data=b"host" + HSACO)
    assert images(data) == [HIP]


def test_containers_nested_too_deep_are_an_error() -> None:
    data = PLAIN
    for _ in range(8):
        data = compressed(2, contents=data)
    assert (
        refusal(devmod.FormatError, read_images, data)
        == "the container is invalid: more than 8 containers enclose an image"
    )


def test_compression_in_compression_is_bounded() -> None:
    """Each frame keeps its own limit, and the file of 2 kB would have 40 MB."""
    data = compressed(
        2,
        contents=bundle(
            (57, 40_000_000, b"x"), data=Random(1).randbytes(1000) + b"\1" * 39_999_000
        ),
    )
    data = compressed(2, contents=bundle((57, len(data), b"x"), data=data))
    check_error(
        devmod.FormatError,
        lambda: read_images(data),
        "the compressed offload bundle at byte 0 has 40000057 bytes after decompression, which is over the limit",
    )


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "k.hsaco")
    check_error(
        devmod.FormatError,
        lambda: read_images(tmp_path / "k.hsaco"),
        f"{str(tmp_path / 'k.hsaco')!r} is a pipe (FIFO); expected a regular file",
    )


def test_a_frame_cannot_request_a_large_window() -> None:
    parts = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    frame = parts.compress(PLAIN[:100]) + parts.compress(PLAIN[100:], parts.FLUSH_FRAME)
    data = b"CCOB" + pack("<HHIIQ", 2, 1, 24 + len(frame), len(PLAIN), 0) + frame
    assert refusal(devmod.FormatError, read_images, data) == (
        "the compressed offload bundle at byte 0 is damaged: Unable to decompress Zstandard data: Frame requires too much memory for decoding"
    )


@pytest.mark.parametrize(
    ("total", "problem"),
    [
        (23, "is invalid: its size is 23 bytes"),
        (24, f"has {len(PLAIN)} bytes after decompression of 0, which is over the limit"),
    ],
)
def test_a_compressed_bundle_of_a_header_alone(total: int, problem: str) -> None:
    data = pack("<4sHHIIQ", b"CCOB", 2, 1, total, len(PLAIN), 7)
    message = refusal(devmod.FormatError, read_images, data)
    assert message == f"the compressed offload bundle at byte 0 {problem}"


def test_a_section_is_known_by_its_whole_name() -> None:
    """The names of the sections behind it are short, and of the same piece."""
    sections: list[Section] = [(".hip_fatbin", 1, PLAIN, 0), ("a", 1, b"", 0), ("b", 1, b"", 0)]
    assert images(elf_file(sections, 62)) == [HIP]


def test_an_image_that_devmod_does_not_run_is_listed() -> None:
    assert images(pack_binary(b"BC\xc0\xde")) == [("", "", "nvptx64", b"BC\xc0\xde")]


def test_another_object_is_an_error() -> None:
    check_error(
        devmod.ArgumentError,
        lambda: read_images(7),
        "a container is bytes, another buffer or a path; got int",
    )  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        read_images("missing.fatbin")


def test_without_a_decompressor_the_error_names_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, NAME, None)
    assert refusal(devmod.ToolchainNotFoundError, read_images, FOLDER / "zstd.bundle") == (
        "the compressed offload bundle at byte 0 is compressed with zstd, and cannot be read: backports.zstd is not installed. To add it: "
        'pip install "devmod-readers[zstd]"'
    )
