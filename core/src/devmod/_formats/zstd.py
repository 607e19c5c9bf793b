"""zstd for the bytes in a file. The standard library has it from Python 3.14 on; before, backports.zstd has it."""

from __future__ import annotations

import sys

from devmod._util.digest import sha256_of
from devmod.errors import ArgumentError, FormatError, NotRegisteredError, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod._values.code import Binary

_LEVEL = 3
_PURPOSE = "the file cannot be compressed: "
#: The largest window that the decompressor allocates is 128 MiB, that of level 22.
_MAX_WINDOW_LOG = 27


def level_of(compress: str | None) -> int:
    """Return the level of the argument `compress` of a save: 0 for "none", -1 for None.

    Raises
    ------
    ArgumentError
        The argument is invalid.
    """
    if compress is None or compress == "none":
        return -1 if compress is None else 0
    name, _, level = str(compress).partition(":")
    if compress == "zstd" or (name == "zstd" and level in map(str, range(1, 23))):
        return int(level or _LEVEL)
    raise ArgumentError(
        f"compress is None, 'none', 'zstd' or 'zstd:LEVEL' with a level from 1 to 22, not {compress!r}", argument="compress"
    )


def pack(data: Binary, level: int) -> bytes:
    """Return the compressed bytes: one frame with the size of its content."""
    packed: bytes = _library(_PURPOSE).compress(data, level)
    return packed


def library_text(level: int) -> str:
    """Return the name and the version of the library, with the level: other versions give other bytes."""
    return f"libzstd {_library(_PURPOSE).zstd_version} level {level}"


def unpack(data: Binary, unpacked: tuple[int, bytes], subject: str, kind: str = "") -> memoryview:
    """Return the bytes that were compressed to `data`.

    Memory is allocated for bytes that the decompressor returns, never for a number in the data. The decompressor stops behind the
    expected size, which `read_index` compares with the size of the data.

    Parameters
    ----------
    data
        The compressed bytes, whose digest was checked.
    unpacked
        The size and the SHA-256 of the result.
    subject, kind
        For messages.

    Raises
    ------
    FormatError
        The data is not one frame of zstd with such a result.
    NotRegisteredError
        The library is not installed.
    """
    size, digest = unpacked
    library = _library(f"{subject} cannot be read: the bytes are compressed with zstd, and ", kind)
    window = min(max(size.bit_length(), 10), _MAX_WINDOW_LOG)
    decompressor = library.ZstdDecompressor(options={library.DecompressionParameter.window_log_max: window})
    problem: Exception | None = None
    try:
        result = decompressor.decompress(data, max_length=size + 1)
        if len(result) == size and decompressor.eof and not decompressor.unused_data and sha256_of(result) == digest:
            return memoryview(result)
    except library.ZstdError as error:
        problem = error
    raise FormatError(
        f"{subject} cannot be read: the compressed bytes do not unpack to the {size} bytes with the SHA-256 in the index. "
        "Nothing of them was used",
        kind=kind,
    ) from problem


def _library(purpose: str, kind: str = "") -> Any:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError as error:
        text = not_installed("backports.zstd", 'pip install "devmod-core[zstd]"')
        raise NotRegisteredError(f"{purpose}{text}", kind=kind, distribution="backports.zstd") from error
    return zstd
