"""LLVM's containers of device code: OffloadBinary, and clang's offload bundles, plain and compressed.

OffloadBinary (llvm/Object/OffloadBinary.h), little-endian, several may follow each other with padding::

    0  magic 10 FF 10 AD    4  version u32    8  size u64    16 offset of the entry u64    24 size of the entry u64
    entry: kind of image u16, kind of offloading u16, flags u32, offset of the strings u64, number of strings u64, offset and
    size of the image u64. A string is a pair of offsets, of a key and of its value ("triple", "arch"), both ending in NUL.

A bundle (clang, "ClangOffloadBundler")::

    0  "__CLANG_OFFLOAD_BUNDLE__"    24 number of entries u64
    entry: offset u64, size u64, length of the name u64, the name ("hipv4-amdgcn-amd-amdhsa--gfx1100")

A compressed bundle::

    0  "CCOB"    4  version u16    6  method u16: 0 zlib, 1 zstd
    version 1: size of the contents u32, hash u64
    version 2: size of the file u32, size of the contents u32, hash u64
    version 3: size of the file u64, size of the contents u64, hash u64

Sources: the files that LLVM 19 writes, and LLVM's documentation of versions 1 and 3.
"""

from __future__ import annotations

from struct import Struct, iter_unpack, unpack_from

from devmod.errors import FormatError, quote_name
from devmod_readers._decompress import decompress_zlib, decompress_zstd

TYPE_CHECKING = False
if TYPE_CHECKING:
    Entry = tuple[str, memoryview]

OFFLOAD_BINARY, BUNDLE, COMPRESSED = b"\x10\xff\x10\xad", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_MAX_ENTRIES, _MAX_STRINGS, _MAX_NAME = 4096, 64, 1024
#: The limit on the decompressed bytes for each byte of a compressed part.
RATIO = 1024
#: The limits on the decompressed bytes of a whole file: these, and so many for each byte; at most 1 GiB.
_FREE_BYTES, _FILE_RATIO, _MAX_BYTES = 1 << 20, 256, 1 << 30
#: The limit on the bytes of all entries, also of those in entries, for each byte of the file and of what was decompressed.
_NESTING = 16
_HEADERS = {1: Struct("<IQ"), 2: Struct("<IIQ"), 3: Struct("<QQQ")}


class Limits:
    """What the containers of one file may still contain.

    A container may be compressed in another one, and the entries of a container may overlap, so the limit of each container alone does not
    bound the work for a file.
    """

    def __init__(self, size: int) -> None:
        self._unpacked = min(_FREE_BYTES + _FILE_RATIO * size, _MAX_BYTES)
        self._enclosed = _NESTING * size

    def unpack(self, size: int, what: str) -> None:
        """Count bytes that are about to be decompressed. Raise FormatError if they are too many."""
        if size > self._unpacked:
            raise FormatError(f"{what} has {size} bytes after decompression, which is over the limit")
        self._unpacked -= size
        self._enclosed += _NESTING * size

    def enclose(self, size: int) -> None:
        """Count the bytes of an entry. Raise FormatError if the entries have too many."""
        self._enclosed -= size
        if self._enclosed < 0:
            raise FormatError("the container is invalid: its entries overlap")


def read_offload_binary(view: memoryview, at: int, _limits: Limits) -> tuple[list[Entry], int]:
    """Return the name (the triple and the architecture) and the image of the OffloadBinary at a place, and the place of its end."""
    what = f"the OffloadBinary at byte {at}"
    version, size, entry, entry_size = unpack_from("<IQQQ", part(view, at, 32, what), 4)
    if version != 1:
        raise FormatError(f"{what} has version {version}; devmod reads version 1")
    binary = part(view, at, size, what)
    if size < 32 or entry_size < 40:
        raise FormatError(f"{what} is invalid: its size is {size} bytes, and that of its entry {entry_size}")
    record = part(binary, entry, entry_size, f"the entry of {what}")
    strings, count, image, image_size = unpack_from("<QQQQ", record, 8)
    if count > _MAX_STRINGS:
        raise FormatError(f"{what} has {count} strings; expected at most {_MAX_STRINGS}")
    table = part(binary, strings, 16 * count, f"the strings of {what}")
    texts = {_string(binary, key, what): _string(binary, value, what) for key, value in iter_unpack("<QQ", table)}
    name = "-".join(filter(None, (texts.get("triple", ""), texts.get("arch", ""))))
    return [(name, part(binary, image, image_size, f"the image of {what}"))], at + size


def read_bundle(view: memoryview, at: int, _limits: Limits) -> tuple[list[Entry], int]:
    """Return the names and the bytes of the entries of the plain bundle at a place, and the place of its end."""
    what = f"the offload bundle at byte {at}"
    bundle = view[at:]
    (count,) = unpack_from("<Q", part(bundle, 24, 8, what))
    if count > _MAX_ENTRIES:
        raise FormatError(f"{what} has {count} entries; expected at most {_MAX_ENTRIES}")
    entries: list[Entry] = []
    place, end, total = 32, 32, 0
    for number in range(count):
        which = f"entry {number + 1} of {what}"
        offset, size, length = unpack_from("<QQQ", part(bundle, place, 24, which))
        if length > _MAX_NAME:
            raise FormatError(f"{which} has a name of {length} bytes; expected at most {_MAX_NAME}")
        name = bytes(part(bundle, place + 24, length, which)).decode("utf-8", "backslashreplace")
        place += 24 + length
        entries.append((name, part(bundle, offset, size, which)))
        end, total = max(end, place, offset + size), total + size
    if total > len(bundle):
        raise FormatError(f"{what} is invalid: its entries overlap")
    return entries, at + end


def read_compressed_bundle(view: memoryview, at: int, limits: Limits) -> tuple[list[Entry], int]:
    """Return the contents of the compressed bundle at a place, and the place of its end."""
    what = f"the compressed offload bundle at byte {at}"
    version, method = unpack_from("<HH", part(view, at, 8, what), 4)
    if version not in _HEADERS:
        raise FormatError(f"{what} has version {version}; devmod reads versions 1 to 3")
    header = _HEADERS[version]
    *sizes, _ = header.unpack(part(view, at + 8, header.size, what))
    length, total = sizes[-1], sizes[0] if version > 1 else len(view) - at
    if total < 8 + header.size:
        raise FormatError(f"{what} is invalid: its size is {total} bytes")
    data = part(view, at, total, what)[8 + header.size :]
    if length > RATIO * len(data):
        raise FormatError(f"{what} has {length} bytes after decompression of {len(data)}, which is over the limit")
    if method not in (0, 1):
        raise FormatError(f"{what} has the compression method {method}; devmod reads 0 (zlib) and 1 (zstd)")
    limits.unpack(length, what)
    contents = decompress_zstd(data, length, what) if method else decompress_zlib(data, length, what)
    return [("", memoryview(contents))], at + total


#: The reader of each container, by its magic.
READERS = ((OFFLOAD_BINARY, read_offload_binary), (BUNDLE, read_bundle), (COMPRESSED, read_compressed_bundle))


def part(view: memoryview, start: int, size: int, what: str) -> memoryview:
    """Return `size` bytes from `start` on. Raise FormatError if they are not in the file."""
    if start + size > len(view):
        raise FormatError(f"{what} is outside of the file: bytes {start} to {start + size} of {len(view)}")
    return view[start : start + size]


def _string(view: memoryview, start: int, what: str) -> str:
    """Return the text from `start` to its NUL."""
    data, found, _ = bytes(view[start : start + _MAX_NAME]).partition(b"\0")
    if not found:
        raise FormatError(f"{what} has a string without an end: {quote_name(data.decode('utf-8', 'backslashreplace'))}")
    return data.decode("utf-8", "backslashreplace")


def skip_zeros(view: memoryview, at: int) -> int:
    """Return the place of the next byte that is not zero, or the end."""
    while at < len(view):
        chunk = bytes(view[at : at + 4096])
        rest = chunk.lstrip(b"\0")
        if rest:
            return at + len(chunk) - len(rest)
        at += len(chunk)
    return at
