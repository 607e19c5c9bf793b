"""Decompression of zlib and zstd. The standard library has zstd from Python 3.14 on, and
backports.zstd has it before.
"""

from __future__ import annotations

import sys
import zlib
from importlib import import_module

from devmod.errors import FormatError, ToolchainNotFoundError, count_text, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def decompress_zlib(data: bytes | memoryview, size: int, what: str) -> bytes:
    """Return the `size` bytes that zlib compressed to `data`. `what` names them in messages.

    Raises
    ------
    FormatError
        The data is damaged, or is not that of `size` bytes.
    """
    return _decompress(zlib.decompressobj(), zlib.error, data, size, what, "")


def decompress_zstd(
    data: bytes | memoryview, size: int, what: str, *, kind: str = "", alternative: str = ""
) -> bytes:
    """Return the `size` bytes that zstd compressed to `data`. `what` names them in messages.

    Parameters
    ----------
    data, size, what
        The compressed data, and the bytes that it has after decompression.
    kind
        The kind of the errors.
    alternative
        How the user avoids the compression, for the message that names the decompressor's install.

    Raises
    ------
    ToolchainNotFoundError
        Python has no decompressor.
    FormatError
        The data is damaged, or is not that of `size` bytes.
    """
    try:
        zstd = import_module(
            "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        )
    except ImportError as error:
        install = not_installed("backports.zstd", "devmod-readers[zstd]", "backports")
        raise ToolchainNotFoundError(
            f"{what} is compressed with zstd, and cannot be read: {install}{alternative}", kind=kind
        ) from error
    # A frame's header may request a window of 128 MiB for a few bytes. Each reader of zstd supports
    # one of 8 MiB (RFC 8878).
    window = min(max(size.bit_length(), 23), 27)
    decompressor = zstd.ZstdDecompressor(
        options={zstd.DecompressionParameter.window_log_max: window}
    )
    return _decompress(decompressor, zstd.ZstdError, data, size, what, kind)


def _decompress(
    decompressor: Any,
    error_type: type[Exception],
    data: bytes | memoryview,
    size: int,
    what: str,
    kind: str,
) -> bytes:
    try:
        result: bytes = decompressor.decompress(data, max_length=size + 1)
    except error_type as error:
        raise FormatError(f"{what} is damaged: {error}", kind=kind) from None
    if len(result) != size:
        raise FormatError(
            f"{what} is damaged: expected {count_text(size, 'byte')} after decompression, got {len(result)}",
            kind=kind,
        )
    if not decompressor.eof:
        raise FormatError(f"{what} is damaged: its compressed data has no end", kind=kind)
    return result
