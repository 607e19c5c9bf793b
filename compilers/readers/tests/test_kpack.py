"""AMD's archives of code objects: those of their own writer, those of compiled kernels, and damaged
ones.
"""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Any

import pytest
from backend_checks import check_error
from containers import archive, frames
from zstandard_library import zstd

import devmod
from devmod_readers.offload import OffloadImage, read_images

pytestmark = pytest.mark.once  # bytes, which the reader reads itself

FOLDER = Path(__file__).parent / "vectors/kpack"


def images(path: Path) -> list[tuple[str, bytes]]:
    return [(image.name, bytes(image.data)) for image in read_images(path)]


def test_images_of_their_writer() -> None:
    assert images(FOLDER / "plain.kpack") == [
        ("gfx900 lib/libtest.so", b"KERNEL1_GFX900_DATA" + bytes(100)),
        ("gfx906 lib/libtest.so", b"KERNEL2_GFX906_DATA" + bytes(200)),
        ("gfx900 bin/testapp", b"KERNEL3_APP_GFX900" + b"\xff" * 150),
    ]


def test_compressed_images_of_their_writer() -> None:
    assert images(FOLDER / "zstd.kpack") == [
        ("gfx1100 lib/libhip.so", b"HIP_KERNEL_GFX1100_" + b"A" * 500 + b"B" * 500),
        ("gfx1101 lib/libhip.so", b"HIP_KERNEL_GFX1101_" + b"X" * 300 + b"Y" * 300),
        ("gfx1100 bin/hiptest", b"TEST_APP_KERNEL___" + b"\x42" * 1000),
    ]


ENTRY = {"a": {"gfx900": {"ordinal": 0, "original_size": 100}}}
PLAIN: dict[str, Any] = {"compression_scheme": "none", "blobs": [{"offset": 64, "size": 7}]}
DAMAGED: dict[str, tuple[bytes, str]] = {
    "half a header": (b"KPAK" + bytes(5), " is outside of the file: bytes 0 to 16 of 9"),
    "another version": (archive({}, version=2), " has version 2; devmod reads version 1"),
    "a table outside": (
        archive({}, offset=1 << 40),
        " is invalid: its table is at byte 1099511627776 of {size}",
    ),
    "a table in the header": (
        archive({}, offset=8),
        " is invalid: its table is at byte 8 of {size}",
    ),
    "half a table": (
        archive({})[:-5],
        " is damaged: its table cannot be read: OutOfData: No more data to unpack.",
    ),
    "a table that is a number": (
        b"KPAK" + pack("<IQ", 1, 16) + b"\x07",
        " is invalid: its table is no map",
    ),
    "another scheme": (
        archive(ENTRY, compression_scheme="lz4"),
        " has the compression scheme 'lz4'; devmod reads 'none' and 'zstd-per-kernel'",
    ),
    "no files": (
        archive(7),
        " is invalid: expected a map of files, each a map of architectures, each with a number",
    ),
    "a negative number": (
        archive({"a": {"gfx900": {"ordinal": -1}}}, frames()),
        " is invalid: expected a map of files, each a map of architectures, each with a number",
    ),
    "too many": (
        archive({"a": {str(n): {"ordinal": 0} for n in range(5000)}}),
        " has more than 4096 code objects",
    ),
    "a frame that is missing": (
        archive(ENTRY, frames()),
        "the code object 'gfx900 a' of {} has the number 0; expected a number below 0",
    ),
    "a size that is missing": (
        archive({"a": {"gfx900": {"ordinal": 0}}}, frames(b"x")),
        "the code object 'gfx900 a' of {} has no size; expected 'original_size' in the table",
    ),
    "a size over the limit": (
        archive({"a": {"gfx900": {"ordinal": 0, "original_size": 5000}}}, frames(b"abcd")),
        "the code object 'gfx900 a' of {} has 5000 bytes after decompression of 4, which is over the limit",
    ),
    "sizes over the limit together": (
        archive(
            {"a": {str(n): {"ordinal": n, "original_size": 1 << 20} for n in range(1025)}},
            frames(*[bytes(1024)] * 1025),
        ),
        " has 1074790400 bytes after decompression, which is over the limit",
    ),
    "two sizes of one frame": (
        archive(
            {
                "a": {
                    "gfx900": {"ordinal": 0, "original_size": 9},
                    "gfx906": {"ordinal": 0, "original_size": 8},
                }
            },
            frames(b"abcd"),
        ),
        "the code object 'gfx906 a' of {} has 8 bytes in the table, and 9 elsewhere",
    ),
    "a size that is not the blob's": (
        archive(ENTRY, bytes(7), **PLAIN),
        "the code object 'gfx900 a' of {} has 100 bytes in the table, and 7 elsewhere",
    ),
    "a blob outside": (
        archive({}, **PLAIN | {"blobs": [{"offset": 1 << 62, "size": 7}]}),
        "blob 0 of {} is outside of the file: bytes 4611686018427387904 to 4611686018427387911 of {size}",
    ),
    "a blob without a place": (
        archive({}, **PLAIN | {"blobs": [{"offset": 1}]}),
        " is invalid: expected a list of blobs, each with an offset and a size",
    ),
    "compressed bytes without a place": (
        archive(ENTRY, zstd_offset=None),
        " is invalid: expected 'zstd_offset' and 'zstd_size' in its table",
    ),
    "compressed bytes outside": (
        archive(ENTRY, zstd_size=1 << 20),
        "the compressed part of {} is outside of the file: bytes 64 to 1048640 of {size}",
    ),
    "too many frames": (
        archive(ENTRY, pack("<I", 1 << 31)),
        "the compressed part of {} has 2147483648 frames; expected at most 4096",
    ),
    "a frame outside": (
        archive(ENTRY, pack("<II", 1, 100)),
        "frame 0 of the compressed part of {} is outside of the file: bytes 8 to 108 of 8",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_archive_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a damaged archive was decompressed")

    monkeypatch.setattr("devmod_readers.offload.decompress_zstd", refuse)
    data, message = DAMAGED[name]
    what = "the kpack archive at byte 0"
    text = (
        message.format(what, size=len(data))
        if "{}" in message
        else what + message.format(size=len(data))
    )
    check_error(devmod.FormatError, lambda: read_images(data), text)


def test_a_damaged_frame_is_an_error() -> None:
    data = archive(ENTRY, frames(zstd.compress(bytes(99))))
    check_error(
        devmod.FormatError,
        lambda: read_images(data),
        "code object 0 of the kpack archive at byte 0 is damaged: expected 100 bytes after decompression, got 99",
    )


PLAIN_TABLE: dict[str, Any] = {"compression_scheme": "none"}


def shared(count: int, blob: bytes) -> bytes:
    """Return an archive whose code objects are all of one blob."""
    toc = {"k": {f"gfx{number}": {"ordinal": 0} for number in range(count)}}
    return archive(toc, blob, **PLAIN_TABLE, blobs=[{"offset": 64, "size": len(blob)}])


def test_code_objects_may_share_a_blob() -> None:
    data = shared(4, b"code" + bytes(100))
    assert [image.name for image in read_images(data)] == [f"gfx{number} k" for number in range(4)]


def test_archives_in_archives_do_not_multiply() -> None:
    """Each of 3,000 bytes has 40 times the one inside it. All of them are 40 to the power of 5."""
    data = archive({}, **PLAIN_TABLE, blobs=[])
    for _ in range(5):
        data = shared(40, data)
    check_error(
        devmod.FormatError,
        lambda: read_images(data),
        "the container is invalid: its entries overlap",
    )


def test_a_blob_that_thousands_share_is_not_copied_thousands_of_times() -> None:
    data = shared(3000, b"code" + bytes(100_000))
    check_error(
        devmod.FormatError,
        lambda: read_images(data),
        "the container is invalid: its entries overlap",
    )


def test_archives_that_follow_each_other_are_read_once() -> None:
    one = archive({}, **PLAIN_TABLE, blobs=[])
    assert read_images(one * 3 + shared(1, b"x")) == [
        OffloadImage("", "", "gfx0 k", memoryview(b"x"))
    ]
