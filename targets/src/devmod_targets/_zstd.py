"""Decompression of zstd, by the standard library from Python 3.14 on, and by backports.zstd before."""

from __future__ import annotations

import sys
from importlib import import_module

from devmod.errors import FormatError, ToolchainNotFoundError, not_installed


def decompress_zstd(data: bytes | memoryview, size: int, what: str) -> bytes:
    """Return the `size` bytes that zstd compressed to `data`. `what` names them in messages.

    Raises
    ------
    ToolchainNotFoundError
        Python has no decompressor.
    FormatError
        The data is damaged, or is not that of `size` bytes.
    """
    try:
        zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError as error:
        install = not_installed("backports.zstd", 'pip install "devmod-targets[zstd]"')
        raise ToolchainNotFoundError(f"{what} is compressed with zstd, and cannot be read: {install}") from error
    decompressor = zstd.ZstdDecompressor()
    try:
        result: bytes = decompressor.decompress(data, max_length=size + 1)
    except zstd.ZstdError as error:
        raise FormatError(f"{what} is damaged: {error}") from None
    if len(result) != size:
        raise FormatError(f"{what} is damaged: expected {size} bytes after decompression, got {len(result)}")
    if not decompressor.eof:
        raise FormatError(f"{what} is damaged: its compressed data has no end")
    return result
