"""AMD's archives of code objects (``.kpack``), which ROCm's libraries have beside them in place of code inside them.

Little-endian::

    0  "KPAK"    4  version u32    8  offset of the table u64
    64 the code objects
    the table, one msgpack map:
        compression_scheme: "none" or "zstd-per-kernel"
        blobs (none): a list of {offset, size}, in the file
        zstd_offset, zstd_size (zstd-per-kernel): number of frames u32; for each frame its size u32 and its bytes
        toc: name of a file to architecture to {ordinal: the number of the blob or frame, original_size}

Source: the writer of the project rocm-kpack, format version 1.
"""

from __future__ import annotations

from struct import unpack_from

from devmod.errors import FormatError, quote_name
from devmod_readers._decompress import decompress_zstd
from devmod_readers.offload._containers import RATIO, Limits, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard

MAGIC = b"KPAK"
_MAX_ENTRIES, _MAX_NAME, _MAX_TABLE = 4096, 1024, 1 << 24


def read_kpack(view: memoryview, at: int, limits: Limits) -> tuple[list[tuple[str, memoryview]], int]:
    """Return the names (architecture and file) and the code objects of the archive at a place, and the place of its end.

    All sizes are checked before the first code object is decompressed.
    """
    what = f"the kpack archive at byte {at}"
    archive = view[at:]
    table, end = _read_table(archive, what)
    entries = _entries(table, what)
    scheme = table.get("compression_scheme", "none")
    if scheme not in ("none", "zstd-per-kernel"):
        raise FormatError(f"{what} has the compression scheme {_quoted(scheme)}; devmod reads 'none' and 'zstd-per-kernel'")
    is_compressed = scheme == "zstd-per-kernel"
    blobs = _frames(archive, table, what) if is_compressed else _plain_blobs(archive, table, what)
    sizes: dict[int, int] = {}
    for name, ordinal, size in entries:
        which = f"the code object {quote_name(name)} of {what}"
        if ordinal >= len(blobs):
            raise FormatError(f"{which} has the number {ordinal}; expected a number below {len(blobs)}")
        if size is None and is_compressed:
            raise FormatError(f"{which} has no size; expected 'original_size' in the table")
        if size is not None and (sizes.get(ordinal, size) != size or (not is_compressed and size != len(blobs[ordinal]))):
            raise FormatError(f"{which} has {size} bytes in the table, and {sizes.get(ordinal, len(blobs[ordinal]))} elsewhere")
        if is_compressed and size is not None and size > RATIO * len(blobs[ordinal]):
            raise FormatError(f"{which} has {size} bytes after decompression of {len(blobs[ordinal])}, which is over the limit")
        sizes[ordinal] = size or 0
    images = {number: blobs[number] for number in sizes}
    if is_compressed:
        limits.unpack(sum(sizes.values()), what)
        for number, size in sizes.items():
            images[number] = memoryview(decompress_zstd(blobs[number], size, f"code object {number} of {what}", kind="rocm"))
    return [(name, images[ordinal]) for name, ordinal, _ in entries], at + end


class _Rest:
    """Bytes as a file. The reader of a table takes no more of them than the table has: another archive may follow."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def read(self, size: int) -> bytes:
        data = bytes(self._view[:size])
        self._view = self._view[size:]
        return data


def _read_table(archive: memoryview, what: str) -> tuple[dict[Any, Any], int]:
    import msgpack  # type: ignore[import-untyped]

    version, offset = unpack_from("<IQ", part(archive, 0, 16, what), 4)
    if version != 1:
        raise FormatError(f"{what} has version {version}; devmod reads version 1")
    if not 16 <= offset < len(archive):
        raise FormatError(f"{what} is invalid: its table is at byte {offset} of {len(archive)}")
    limits = {"max_array_len": 1 << 16, "max_map_len": 1 << 16, "max_str_len": 1 << 16, "max_bin_len": 1 << 16, "max_ext_len": 0}
    rest = _Rest(archive[offset : offset + _MAX_TABLE])
    unpacker = msgpack.Unpacker(rest, read_size=4096, strict_map_key=True, max_buffer_size=_MAX_TABLE, **limits)
    try:
        table = unpacker.unpack()
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise FormatError(f"{what} is damaged: its table cannot be read: {type(error).__name__}: {error}") from None
    if not isinstance(table, dict):
        raise FormatError(f"{what} is invalid: its table is no map")
    return table, offset + unpacker.tell()


def _entries(table: dict[Any, Any], what: str) -> list[tuple[str, int, int | None]]:
    """Return the name, the number of the blob and the size (None if unknown) of each code object."""
    entries: list[tuple[str, int, int | None]] = []
    toc = table.get("toc")
    files = toc.items() if isinstance(toc, dict) else [("", None)]
    for file, archs in files:
        for arch, entry in archs.items() if isinstance(archs, dict) else [("", None)]:
            ordinal, size = (entry.get("ordinal"), entry.get("original_size")) if isinstance(entry, dict) else (None, None)
            texts = all(isinstance(each, str) and len(each) <= _MAX_NAME for each in (file, arch))
            if not texts or not _is_count(ordinal) or not (size is None or _is_count(size)):
                raise FormatError(f"{what} is invalid: expected a map of files, each a map of architectures, each with a number")
            entries.append((f"{arch} {file}", ordinal, size))
            if len(entries) > _MAX_ENTRIES:
                raise FormatError(f"{what} has more than {_MAX_ENTRIES} code objects")
    return entries


def _plain_blobs(archive: memoryview, table: dict[Any, Any], what: str) -> list[memoryview]:
    blobs = table.get("blobs")
    results: list[memoryview] = []
    for blob in blobs if isinstance(blobs, list) else [None]:
        offset, size = (blob.get("offset"), blob.get("size")) if isinstance(blob, dict) else (None, None)
        if not _is_count(offset) or not _is_count(size):
            raise FormatError(f"{what} is invalid: expected a list of blobs, each with an offset and a size")
        results.append(part(archive, offset, size, f"blob {len(results)} of {what}"))
    return results


def _frames(archive: memoryview, table: dict[Any, Any], what: str) -> list[memoryview]:
    offset, size = table.get("zstd_offset"), table.get("zstd_size")
    if not _is_count(offset) or not _is_count(size):
        raise FormatError(f"{what} is invalid: expected 'zstd_offset' and 'zstd_size' in its table")
    which = f"the compressed part of {what}"
    data = part(archive, offset, size, which)
    (count,) = unpack_from("<I", part(data, 0, 4, which))
    if count > _MAX_ENTRIES:
        raise FormatError(f"{which} has {count} frames; expected at most {_MAX_ENTRIES}")
    frames, at = [], 4
    for number in range(count):
        (length,) = unpack_from("<I", part(data, at, 4, f"frame {number} of {which}"))
        frames.append(part(data, at + 4, length, f"frame {number} of {which}"))
        at += 4 + length
    return frames


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 63


def _quoted(value: object) -> str:
    return quote_name(value) if isinstance(value, str) else type(value).__name__
