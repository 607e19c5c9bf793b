"""Containers of device code that other compilers wrote, taken apart into images.

- `read_images` returns the images of a container. An `OffloadImage` has its kind, its format, its
  name and its bytes.
- `is_container` returns whether bytes begin with the magic of a container of several images.

`devmod.interop.offload.load` makes a module of a container.

The images of a container of device code.

- NVIDIA's fatbins (nvcc, fatbinary, nvfatbin), with their PTX and cubins;
- LLVM's OffloadBinary, and clang's offload bundles, plain and compressed (hipcc writes them, also
  under the name ``.hsaco``);
- AMD's archives of ROCm's libraries (``.kpack``);
- 64-bit ELF files of a host with such contents: objects, libraries and programs;
- single images: PTX, a cubin, an AMD code object.
"""

from __future__ import annotations

import os
import re
from struct import Struct, iter_unpack, unpack_from
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from devmod.backend import detect_form, open_regular
from devmod.errors import ArgumentError, FormatError, count_text, quote_name
from devmod_readers._decompress import decompress_zlib, decompress_zstd
from devmod_readers.elf import NO_BITS, ElfFile
from devmod_readers.nvidia import fatbin_members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    Entry = tuple[str, memoryview]
    #: The entries of a container, and the place of its end.
    _Contents = tuple[list[Entry], int]
    _Reader = Callable[[memoryview, int, "Limits"], _Contents]
    #: The name of a code object, the number of its blob and its size; None if unknown.
    _Code = tuple[str, int, int | None]

__all__ = ["OffloadImage", "is_container", "read_images"]


#: Machines of ELF files.
_CUDA = 190
_AMDGPU = 224
_MAX_IMAGES = 4096
_MAX_DEPTH = 8

#: NVIDIA's fatbins, of a whole program and of objects to link; HIP's bundles; LLVM's
#: OffloadBinaries.
DEVICE_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin", b".hip_fatbin", b".llvm.offloading")

OFFLOAD_BINARY = b"\x10\xff\x10\xad"
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED = b"CCOB"
_MAX_ENTRIES = 4096
_MAX_STRINGS = 64
_MAX_NAME = 1024
_NO_ZERO = re.compile(rb"[^\0]")
#: The limit on the decompressed bytes for each byte of a compressed part.
RATIO = 1024
#: The limits on the decompressed bytes of a whole file: these, and so many for each byte; at most 1
#: GiB.
_FREE_BYTES = 1 << 20
_FILE_RATIO = 256
_MAX_BYTES = 1 << 30
#: The limit on the bytes of all entries, also of those in entries, for each byte of the file and of
#: what was decompressed.
_NESTING = 16
_HEADERS = {1: Struct("<IQ"), 2: Struct("<IIQ"), 3: Struct("<QQQ")}

KPACK = b"KPAK"
_MAX_TABLE = 1 << 24


class OffloadImage(NamedTuple):
    """One image of a container.

    Attributes
    ----------
    kind, fmt
        The kind of module that it is, and the format; "" for an image that devmod does not run,
        such as LLVM bitcode.
    name
        Its target in the container, such as "hipv4-amdgcn-amd-amdhsa--gfx1100"; "" if the container
        has none.
    data
        The bytes.
    """

    kind: str
    fmt: str
    name: str
    data: memoryview


def read_images(data: Buffer | str | os.PathLike[str]) -> list[OffloadImage]:
    """Return the images of a container in their order. Containers inside a container are taken
    apart too.

    Parameters
    ----------
    data
        The container, or the path of its file.

    Raises
    ------
    FormatError
        The container is damaged.
    ToolchainNotFoundError
        The container is compressed with zstd, and Python has no decompressor.
    ArgumentError
        `data` is neither a buffer nor a path.
    OSError
        The file cannot be read.
    """
    if isinstance(data, (str, os.PathLike)):
        with open_regular(data) as file:
            view = memoryview(file.read())
    else:
        try:
            view = memoryview(data).cast("B")
        except TypeError:
            raise ArgumentError(
                f"a container is bytes, another buffer or a path; got {type(data).__name__}",
                argument="data",
            ) from None
    images: list[OffloadImage] = []
    for image in _expand("", view, 0, Limits(len(view))):
        images.append(image)
        if len(images) > _MAX_IMAGES:
            raise FormatError(f"the container has more than {_MAX_IMAGES} images")
    return images


def is_container(data: bytes | memoryview) -> bool:
    """Return whether the bytes begin with the magic of a container of several images. A CUDA fatbin
    and a host's ELF file do not count.
    """
    return _reader_at(memoryview(data), 0) is not None


def _expand(name: str, view: memoryview, depth: int, limits: Limits) -> Iterator[OffloadImage]:
    """Yield the images in a container, or the image itself."""
    if depth:
        limits.enclose(len(view))
    if depth > _MAX_DEPTH:
        raise FormatError(
            f"the container is invalid: more than {_MAX_DEPTH} containers enclose an image"
        )
    if not len(view):
        # The host's entry of a bundle.
        return
    if _reader_at(view, 0) is not None:
        yield from _expand_all(name, view, depth, limits)
        return
    form = detect_form(view)
    if form == "fatbin":
        yield from _expand_fatbin(view, limits)
    elif form == "elf":
        machine = int.from_bytes(view[18:20], "little")
        if machine == _CUDA:
            yield OffloadImage("cuda", "cubin", name, view)
        elif machine == _AMDGPU:
            yield OffloadImage("rocm", "hsaco", name, view)
        else:
            yield from _expand_host(view, depth, limits)
    elif form == "text" and _is_ptx(view):
        yield OffloadImage("cuda", "ptx", name, view)
    elif depth:
        yield OffloadImage("", "", name, view)
    else:
        raise FormatError(
            "the container is not supported: expected a CUDA fatbin, an offload bundle, an OffloadBinary, a kpack archive, PTX, or an ELF "
            f"file, got {bytes(view[:16])!r} at its start"
        )


def _reader_at(view: memoryview, at: int) -> _Reader | None:
    """Return the reader of the container that begins at a place; None if none does."""
    for magic, reader in _READERS:
        if bytes(view[at : at + len(magic)]) == magic:
            return reader
    return None


def _is_ptx(view: memoryview) -> bool:
    start = bytes(view[:65536])
    return b".version" in start and b".target" in start


def _expand_fatbin(view: memoryview, limits: Limits) -> Iterator[OffloadImage]:
    for member in fatbin_members(view):
        if member.compression:
            limits.unpack(member.size, "the CUDA fatbin")
        kind = ""
        fmt = ""
        if member.kind in ("ptx", "cubin"):
            kind = "cuda"
            fmt = member.kind
        yield OffloadImage(kind, fmt, member.arch, memoryview(member.data))


def _expand_all(name: str, view: memoryview, depth: int, limits: Limits) -> Iterator[OffloadImage]:
    """Yield the images in containers that follow each other, with zeros between them."""
    at = 0
    while at < len(view):
        reader = _reader_at(view, at)
        if reader is None:
            raise FormatError(
                f"the container is invalid: expected the magic of a container at byte {at}, got {bytes(view[at : at + 8])!r}"
            )
        entries, end = reader(view, at, limits)
        for entry, data in entries:
            if not entry.startswith("host-"):
                yield from _expand(entry or name, data, depth + 1, limits)
        at = skip_zeros(view, end)


def _expand_host(view: memoryview, depth: int, limits: Limits) -> Iterator[OffloadImage]:
    sections = [*device_sections(view)]
    if not sections:
        raise FormatError(
            "the host's ELF file has no device code: expected a section .nv_fatbin, .hip_fatbin or .llvm.offloading"
        )
    for section, data in sections:
        yield from _expand(section, data, depth + 1, limits)


# -- The sections of a host's ELF file (an object, a library or a program) in which compilers put
# device code.


def device_sections(view: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Yield the names and the contents of the sections with device code.

    Raises
    ------
    FormatError
        The file is not a 64-bit little-endian ELF file, or is damaged.
    """
    if len(view) < 64 or view[4] != 2 or view[5] != 1:
        raise FormatError(
            "the host's file is not supported: expected a 64-bit little-endian ELF file"
        )
    longest = max(map(len, DEVICE_SECTIONS)) + 1
    total = 0
    try:
        tables = ElfFile(view)
        names = tables.names()
        for number, (name, kind, *_) in enumerate(tables.sections()):
            data = tables.contents(number)
            text = bytes(names[name : name + longest]).partition(b"\0")[0]
            if text in DEVICE_SECTIONS and kind != NO_BITS:
                total += len(data)
                if total > len(view):
                    raise ValueError("its sections overlap")
                yield text.decode(), data
    except ValueError as problem:
        raise FormatError(f"the host's ELF file is damaged: {problem}") from None


# -- LLVM's containers of device code: OffloadBinary, and clang's offload bundles, plain and
# compressed.
#
# OffloadBinary (llvm/Object/OffloadBinary.h), little-endian, several may follow each other with
# padding::
#
#     0  magic 10 FF 10 AD             4  version u32             8  size u64
#     16 offset of the entry u64       24 size of the entry u64
#     entry: kind of image u16, kind of offloading u16, flags u32, offset of the strings u64, number
#     of strings u64, offset and size of the image u64. A string is a pair of offsets, of a key and
#     of its value ("triple", "arch"), both ending in NUL.
#
# A bundle (clang, "ClangOffloadBundler")::
#
#     0  "__CLANG_OFFLOAD_BUNDLE__"    24 number of entries u64
#     entry: offset u64, size u64, length of the name u64, the name
#     ("hipv4-amdgcn-amd-amdhsa--gfx1100")
#
# A compressed bundle::
#
#     0  "CCOB"    4  version u16    6  method u16: 0 zlib, 1 zstd
#     version 1: size of the contents u32, hash u64
#     version 2: size of the file u32, size of the contents u32, hash u64
#     version 3: size of the file u64, size of the contents u64, hash u64
#
# Sources: the files that LLVM 19 writes, and LLVM's documentation of versions 1 and 3.


class Limits:
    """What the containers of one file may still contain.

    A container may be compressed in another one, and the entries of a container may overlap, so the
    limit of each container alone does not bound the work for a file.
    """

    def __init__(self, size: int) -> None:
        self._unpacked = min(_FREE_BYTES + _FILE_RATIO * size, _MAX_BYTES)
        self._enclosed = _NESTING * size

    def unpack(self, size: int, what: str) -> None:
        """Count bytes that are about to be decompressed. Raise FormatError if they are too many."""
        if size > self._unpacked:
            raise FormatError(
                f"{what} has {count_text(size, 'byte')} after decompression, which is over the limit"
            )
        self._unpacked -= size
        self._enclosed += _NESTING * size

    def enclose(self, size: int) -> None:
        """Count the bytes of an entry. Raise FormatError if the entries have too many."""
        self._enclosed -= size
        if self._enclosed < 0:
            raise FormatError("the container is invalid: its entries overlap")


def read_offload_binary(view: memoryview, at: int, _limits: Limits) -> _Contents:
    """Return the name (the triple and the architecture) and the image of the OffloadBinary at a
    place, and the place of its end.
    """
    what = f"the OffloadBinary at byte {at}"
    version, size, entry, entry_size = unpack_from("<IQQQ", part(view, at, 32, what), 4)
    if version != 1:
        raise FormatError(f"{what} has version {version}; devmod reads version 1")
    binary = part(view, at, size, what)
    if size < 32 or entry_size < 40:
        raise FormatError(
            f"{what} is invalid: its size is {count_text(size, 'byte')}, and that of its entry {entry_size}"
        )
    strings, count, image, image_size = unpack_from(
        "<QQQQ", part(binary, entry, entry_size, f"the entry of {what}"), 8
    )
    if count > _MAX_STRINGS:
        raise FormatError(f"{what} has {count} strings; expected at most {_MAX_STRINGS}")
    table = part(binary, strings, 16 * count, f"the strings of {what}")
    texts = {}
    for key, value in iter_unpack("<QQ", table):
        text = _string(binary, key, what)
        texts[text] = _string(binary, value, what)
    name = "-".join(filter(None, (texts.get("triple", ""), texts.get("arch", ""))))
    return [(name, part(binary, image, image_size, f"the image of {what}"))], at + size


def read_bundle(view: memoryview, at: int, _limits: Limits) -> _Contents:
    """Return the names and the bytes of the entries of the plain bundle at a place, and the place
    of its end.
    """
    what = f"the offload bundle at byte {at}"
    bundle = view[at:]
    (count,) = unpack_from("<Q", part(bundle, 24, 8, what))
    if count > _MAX_ENTRIES:
        raise FormatError(f"{what} has {count} entries; expected at most {_MAX_ENTRIES}")
    entries: list[Entry] = []
    place = end = 32
    total = 0
    for number in range(count):
        which = f"entry {number + 1} of {what}"
        offset, size, length = unpack_from("<QQQ", part(bundle, place, 24, which))
        if length > _MAX_NAME:
            raise FormatError(
                f"{which} has a name of {count_text(length, 'byte')}; expected at most {_MAX_NAME}"
            )
        name = bytes(part(bundle, place + 24, length, which)).decode("utf-8", "backslashreplace")
        place += 24 + length
        entries.append((name, part(bundle, offset, size, which)))
        end = max(end, place, offset + size)
        total += size
    if total > len(bundle):
        raise FormatError(f"{what} is invalid: its entries overlap")
    return entries, at + end


def read_compressed_bundle(view: memoryview, at: int, limits: Limits) -> _Contents:
    """Return the contents of the compressed bundle at a place, and the place of its end."""
    what = f"the compressed offload bundle at byte {at}"
    version, method = unpack_from("<HH", part(view, at, 8, what), 4)
    if version not in _HEADERS:
        raise FormatError(f"{what} has version {version}; devmod reads versions 1 to 3")
    header = _HEADERS[version]
    *sizes, _ = header.unpack(part(view, at + 8, header.size, what))
    length = sizes[-1]
    # Version 1 has no size of the file.
    total = sizes[0] if version > 1 else len(view) - at
    if total < 8 + header.size:
        raise FormatError(f"{what} is invalid: its size is {count_text(total, 'byte')}")
    data = part(view, at, total, what)[8 + header.size :]
    if length > RATIO * len(data):
        raise FormatError(
            f"{what} has {count_text(length, 'byte')} after decompression of {len(data)}, which is over the limit"
        )
    if method not in (0, 1):
        raise FormatError(
            f"{what} has the compression method {method}; devmod reads 0 (zlib) and 1 (zstd)"
        )
    limits.unpack(length, what)
    decompress = decompress_zstd if method else decompress_zlib
    contents = memoryview(decompress(data, length, what))
    return [("", contents)], at + total


def part(view: memoryview, start: int, size: int, what: str) -> memoryview:
    """Return `size` bytes from `start` on. Raise FormatError if they are not in the file."""
    if start + size > len(view):
        raise FormatError(
            f"{what} is outside of the file: bytes {start} to {start + size} of {len(view)}"
        )
    return view[start : start + size]


def _string(view: memoryview, start: int, what: str) -> str:
    """Return the text from `start` to its NUL."""
    data, found, _ = bytes(view[start : start + _MAX_NAME]).partition(b"\0")
    if not found:
        raise FormatError(
            f"{what} has a string without an end: {quote_name(data.decode('utf-8', 'backslashreplace'))}"
        )
    return data.decode("utf-8", "backslashreplace")


def skip_zeros(view: memoryview, at: int) -> int:
    """Return the place of the next byte that is not zero, or the end."""
    found = _NO_ZERO.search(view, at)
    if found is None:
        return len(view)
    return found.start()


# -- AMD's archives of code objects (``.kpack``), which ROCm's libraries have beside them in place
# of code inside them.
#
# Little-endian::
#
#     0  "KPAK"    4  version u32    8  offset of the table u64
#     64 the code objects
#     the table, one msgpack map:
#         compression_scheme: "none" or "zstd-per-kernel" blobs (none): a list of {offset, size}, in
#         the file zstd_offset, zstd_size (zstd-per-kernel): number of frames u32; for each frame
#         its size u32 and its bytes toc: name of a file to architecture to {ordinal: the number of
#         the blob or frame, original_size}
#
# Source: the writer of the project rocm-kpack, format version 1.


def read_kpack(view: memoryview, at: int, limits: Limits) -> _Contents:
    """Return the names (architecture and file) and the code objects of the archive at a place, and
    the place of its end.

    All sizes are checked before the first code object is decompressed.
    """
    what = f"the kpack archive at byte {at}"
    archive = view[at:]
    table, end = _read_table(archive, what)
    entries = _entries(table, what)
    scheme = table.get("compression_scheme", "none")
    if scheme not in ("none", "zstd-per-kernel"):
        raise FormatError(
            f"{what} has the compression scheme {_quoted(scheme)}; devmod reads 'none' and 'zstd-per-kernel'"
        )
    if scheme == "none":
        blobs = _plain_blobs(archive, table, what)
        _check_sizes(entries, blobs, what, is_compressed=False)
        return [(name, blobs[ordinal]) for name, ordinal, _ in entries], at + end

    frames = _frames(archive, table, what)
    sizes = _check_sizes(entries, frames, what, is_compressed=True)
    limits.unpack(sum(sizes.values()), what)
    images = {}
    for number, size in sizes.items():
        which = f"code object {number} of {what}"
        images[number] = memoryview(decompress_zstd(frames[number], size, which, kind="rocm"))
    return [(name, images[ordinal]) for name, ordinal, _ in entries], at + end


def _check_sizes(
    entries: list[_Code],
    blobs: list[memoryview],
    what: str,
    *,
    is_compressed: bool,
) -> dict[int, int]:
    """Check the sizes in the table, and return that of each blob that has a name; 0 if it is
    unknown.
    """
    sizes: dict[int, int] = {}
    for name, ordinal, size in entries:
        which = f"the code object {quote_name(name)} of {what}"
        if ordinal >= len(blobs):
            raise FormatError(
                f"{which} has the number {ordinal}; expected a number below {len(blobs)}"
            )
        stored = len(blobs[ordinal])
        if size is None:
            if is_compressed:
                raise FormatError(f"{which} has no size; expected 'original_size' in the table")
            sizes[ordinal] = 0
            continue
        differs = not is_compressed and size != stored
        if differs or sizes.get(ordinal, size) != size:
            raise FormatError(
                f"{which} has {count_text(size, 'byte')} in the table, and {sizes.get(ordinal, stored)} elsewhere"
            )
        if is_compressed and size > RATIO * stored:
            raise FormatError(
                f"{which} has {count_text(size, 'byte')} after decompression of {stored}, which is over the limit"
            )
        sizes[ordinal] = size
    return sizes


class _Rest:
    """Bytes as a file. The reader of a table takes no more of them than the table has: another
    archive may follow.
    """

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
    limits = {
        "max_array_len": 1 << 16,
        "max_map_len": 1 << 16,
        "max_str_len": 1 << 16,
        "max_bin_len": 1 << 16,
        "max_ext_len": 0,
    }
    rest = _Rest(archive[offset : offset + _MAX_TABLE])
    unpacker = msgpack.Unpacker(
        rest, read_size=4096, strict_map_key=True, max_buffer_size=_MAX_TABLE, **limits
    )
    try:
        table = unpacker.unpack()
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise FormatError(
            f"{what} is damaged: its table cannot be read: {type(error).__name__}: {error}"
        ) from None
    if not isinstance(table, dict):
        raise FormatError(f"{what} is invalid: its table is no map")
    return table, offset + unpacker.tell()


def _entries(table: dict[Any, Any], what: str) -> list[_Code]:
    """Return the name, the number of the blob and the size (None if unknown) of each code
    object.
    """
    entries: list[_Code] = []
    invalid = FormatError(
        f"{what} is invalid: expected a map of files, each a map of architectures, each with a number"
    )
    toc = table.get("toc")
    if not isinstance(toc, dict):
        raise invalid
    for file, archs in toc.items():
        if not isinstance(archs, dict):
            raise invalid
        for arch, entry in archs.items():
            if not isinstance(entry, dict) or not _is_name(file) or not _is_name(arch):
                raise invalid
            ordinal = entry.get("ordinal")
            size = entry.get("original_size")
            if not _is_count(ordinal) or not (size is None or _is_count(size)):
                raise invalid
            entries.append((f"{arch} {file}", ordinal, size))
            if len(entries) > _MAX_ENTRIES:
                raise FormatError(f"{what} has more than {_MAX_ENTRIES} code objects")
    return entries


def _plain_blobs(archive: memoryview, table: dict[Any, Any], what: str) -> list[memoryview]:
    invalid = FormatError(
        f"{what} is invalid: expected a list of blobs, each with an offset and a size"
    )
    blobs = table.get("blobs")
    if not isinstance(blobs, list):
        raise invalid
    results: list[memoryview] = []
    for blob in blobs:
        if not isinstance(blob, dict):
            raise invalid
        offset = blob.get("offset")
        size = blob.get("size")
        if not _is_count(offset) or not _is_count(size):
            raise invalid
        results.append(part(archive, offset, size, f"blob {len(results)} of {what}"))
    return results


def _frames(archive: memoryview, table: dict[Any, Any], what: str) -> list[memoryview]:
    offset = table.get("zstd_offset")
    size = table.get("zstd_size")
    if not _is_count(offset) or not _is_count(size):
        raise FormatError(f"{what} is invalid: expected 'zstd_offset' and 'zstd_size' in its table")
    which = f"the compressed part of {what}"
    data = part(archive, offset, size, which)
    (count,) = unpack_from("<I", part(data, 0, 4, which))
    if count > _MAX_ENTRIES:
        raise FormatError(f"{which} has {count} frames; expected at most {_MAX_ENTRIES}")
    frames = []
    at = 4
    for number in range(count):
        frame = f"frame {number} of {which}"
        (length,) = unpack_from("<I", part(data, at, 4, frame))
        frames.append(part(data, at + 4, length, frame))
        at += 4 + length
    return frames


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= _MAX_NAME


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 63


def _quoted(value: object) -> str:
    if isinstance(value, str):
        return quote_name(value)
    return type(value).__name__


#: The reader of each container, by its magic.
_READERS: tuple[tuple[bytes, _Reader], ...] = (
    (OFFLOAD_BINARY, read_offload_binary),
    (BUNDLE, read_bundle),
    (COMPRESSED, read_compressed_bundle),
    (KPACK, read_kpack),
)
