"""The head of a ``.devmod`` file: magic, version, digest, and the index that says where everything lies."""

from __future__ import annotations

from devmod._formats.msgpack import Last, Reader
from devmod._names import well_formed
from devmod._stored import LIBRARY
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod._payload import Origin

MAGIC = b"\x89devmod\n"
VERSION = 1
HEADER = 48
ALIGN = 64
#: The kind of a node that holds candidates; it has no bytes.
BUNDLE = "bundle"
#: How large an index may be: some hundred thousand modules.
MAX_INDEX = 64 << 20
#: How many values an index may hold: a module takes about twenty.
MAX_VALUES = 1 << 22
#: How deep modules may import each other.
MAX_DEPTH = 64


class Entry:
    """One module in the index. ``offset`` is None for a node that has no bytes."""

    __slots__ = ("digest", "fmt", "functions", "imports", "kind", "offset", "origin", "size", "variant")

    def __init__(
        self,
        kind: str,
        imports: Sequence[int] = (),
        *,
        fmt: str = "",
        functions: Sequence[str] = (),
        variant: str = "",
        origin: Origin | None = None,
        offset: int | None = None,
        size: int = 0,
        digest: bytes = bytes(32),
    ) -> None:
        self.kind = kind
        self.imports = imports
        self.fmt = fmt
        self.functions = functions
        self.variant = variant
        self.origin = origin
        self.offset = offset
        self.size = size
        self.digest = digest

    def to_dict(self) -> dict[str, Any]:
        """The map that the index holds; what is empty is left out."""
        lists = {"imports": self.imports, "format": self.fmt, "functions": self.functions, "variant": self.variant}
        made: dict[str, Any] = {"kind": self.kind} | {key: value for key, value in lists.items() if value}
        if self.origin is not None:
            made["origin"] = self.origin.to_dict()
        if self.offset is not None:
            made |= {"offset": self.offset, "size": self.size, "sha256": self.digest}
        return made


def aligned(offset: int) -> int:
    """The next multiple of 64."""
    return -(-offset // ALIGN) * ALIGN


def index_digest(data: bytes | memoryview) -> bytes:
    """The digest of an index. It is small, and hashlib, which loads OpenSSL, takes longer to import than all else here."""
    try:
        from _sha2 import sha256  # type: ignore[import-not-found, unused-ignore]
    except ImportError:  # Python 3.11 has it under another name, and neither need be there
        try:
            from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            from hashlib import sha256
    digest: bytes = sha256(data).digest()
    return digest


# -- reading

# The layout; integers of the header are little-endian:
#
#   0    8   magic, 89 "devmod" 0A (the first byte and the newline show a file that was sent as text)
#   8    4   u32 the version of the format, 1
#   12   4   u32 the length of the index
#   16   32  SHA-256 of the index
#   48       the index, one msgpack map:
#              roots    array of numbers of modules; several are the candidates of a `bundle`
#              modules  array of maps, the number of a module being its place in it:
#                kind       str; "bundle" and "_lib" are nodes without bytes
#                imports    array of numbers, each greater than the module's own: there can be no cycle
#                format     str
#                functions  array of str, the names that callers use
#                variant    str, the architecture as the target's spec reads it from the payload
#                origin     map (Origin.to_dict)
#                offset     the module's bytes, counted from the first multiple of 64 behind the index
#                size
#                sha256     bin of 32
#              Of these only roots, modules and kind must be there; offset, size and sha256 are there together or not at all.
#              Keys that are not known are skipped. The version rises when one must not be.
#   …        zeros up to a multiple of 64, before each module's bytes. They lie in the order of the index, without gaps
#            otherwise, and the file ends with the last.


def read_head(data: memoryview, place: str) -> memoryview:
    """The index, when the header holds and the index has its digest.

    Raises
    ------
    FormatError
        This is no bundle, it is cut short or damaged, or it was written by a newer devmod.
    """
    if data[:8] != MAGIC[: len(data)] or not data:
        raise FormatError(f"{place} is not a bundle: it does not begin with the magic bytes of a .devmod file")
    if len(data) < HEADER:
        raise FormatError(f"{place} is cut short: {len(data)} bytes, and the header alone takes {HEADER}")
    version, length = int.from_bytes(data[8:12], "little"), int.from_bytes(data[12:16], "little")
    if version > VERSION:
        raise FormatError(
            f"{place} is in version {version} of the .devmod format, and this devmod reads version {VERSION}: pip install -U devmod-core"
        )
    if version < 1:
        raise FormatError(f"{place} is damaged: there is no version {version} of the .devmod format")
    if length > MAX_INDEX:
        raise FormatError(f"{place} is damaged: an index of {length} bytes, and the most there is are {MAX_INDEX}")
    if length > len(data) - HEADER:
        raise FormatError(f"{place} is cut short: an index of {length} bytes, and {len(data) - HEADER} are left")
    index = data[HEADER : HEADER + length]
    if index_digest(index) != data[16:HEADER]:
        raise FormatError(f"{place} is damaged: the SHA-256 of its index is not the one in its header. Get the file again")
    return index


def read_index(index: memoryview, available: int, place: str) -> tuple[list[int], list[Entry]]:
    """The numbers of the roots, and the modules.

    Parameters
    ----------
    index
        As `read_head` gives it.
    available
        How many bytes there are for the modules; -1 leaves that unchecked.
    place
        What the index belongs to, for messages.

    Raises
    ------
    FormatError
        It is not of the form above; the message names the module and its field.
    """
    reader = Reader(index, f"the index of {place}", most=MAX_VALUES)
    roots: list[int] | None = None
    entries: list[Entry] | None = None
    taken: set[str] = set()
    for _ in range(reader.read_map()):
        reader.field = ""
        key = reader.read_key(taken)
        taken.add(key)
        reader.field = key
        if key == "roots":
            roots = list(_read_numbers(reader))
        elif key == "modules":
            last = Last(index)
            entries = [_read_entry(reader, number, last) for number in range(reader.read_array())]
            reader.within = ""
        else:
            reader.read_value()
    reader.finish()
    if roots is None or entries is None:
        raise FormatError(f"the index of {place} has no {'roots' if roots is None else 'modules'}")
    _check_tree(roots, entries, place)
    _check_blobs(entries, available, place)
    return roots, entries


def _read_entry(reader: Reader, number: int, last: Last) -> Entry:
    reader.within, reader.field = f"modules, {number}", ""
    start = reader.at
    fields = reader.read_fields(_VALUES, last)
    kind = fields.get("kind", "")
    bare = kind in (BUNDLE, LIBRARY)
    if not bare and not well_formed(kind):
        raise reader.error("no kind, or one that is not of the form [a-z][a-z0-9_]{0,31}", start)
    held = [key for key in ("offset", "size", "sha256") if key in fields]
    if len(held) != (0 if bare else 3):
        raise reader.error(
            f"a module of kind {kind!r} has {'no' if bare else 'an'} offset, size and sha256; found: {', '.join(held) or 'none'}", start
        )
    digest = bytes(fields.get("sha256", bytes(32)))
    if len(digest) != 32:
        raise reader.error(f"a sha256 of {len(digest)} bytes", start)
    return Entry(
        kind,
        fields.get("imports", ()),
        fmt=fields.get("format", ""),
        functions=fields.get("functions", ()),
        variant=fields.get("variant", ""),
        origin=fields.get("origin"),
        offset=fields.get("offset"),
        size=fields.get("size", 0),
        digest=digest,
    )


def _read_size(reader: Reader) -> int:
    return reader.read_int(0, 2**63 - 1)


def _read_names(reader: Reader) -> tuple[str, ...]:
    return tuple([reader.read_str() for _ in range(reader.read_array())])


def _read_numbers(reader: Reader) -> tuple[int, ...]:
    return tuple([reader.read_int(0, 2**32 - 1) for _ in range(reader.read_array())])


def _read_origin(reader: Reader) -> Origin:
    from devmod._payload import Origin

    start = reader.at
    fields = reader.read_map_object()
    try:
        return Origin.from_dict(fields)
    except FormatError as error:
        raise reader.error(str(error), start) from None


#: How each field of a module is read; those that are not here are skipped.
_VALUES: dict[str, Callable[[Reader], Any]] = {
    "kind": Reader.read_str,
    "imports": _read_numbers,
    "format": Reader.read_str,
    "functions": _read_names,
    "variant": Reader.read_str,
    "origin": _read_origin,
    "offset": _read_size,
    "size": _read_size,
    "sha256": Reader.read_bin,
}


def _check_tree(roots: list[int], entries: list[Entry], place: str) -> None:
    """Every number is a module's, every module hangs in the tree, and the tree has no cycle and is not too deep."""
    depth = [0] * len(entries)
    for root in roots:
        if root >= len(entries):
            raise FormatError(f"the index of {place}: the root {root} is none of its {len(entries)} modules")
        depth[root] = 1
    if not roots:
        raise FormatError(f"the index of {place} has no root")
    if len(set(roots)) != len(roots):
        raise FormatError(f"the index of {place} names a root twice")
    for number, entry in enumerate(entries):
        if not depth[number]:
            raise FormatError(f"the index of {place}: module {number} is neither a root nor imported by a module before it")
        if depth[number] > MAX_DEPTH:
            raise FormatError(f"the index of {place}: module {number} lies more than {MAX_DEPTH} imports deep")
        for child in entry.imports:
            if child >= len(entries):
                raise FormatError(f"the index of {place}: module {number} imports {child}, and there are {len(entries)} modules")
            if child <= number:
                raise FormatError(
                    f"the index of {place}: module {number} imports {child}, which may be a cycle: a number after its own is due"
                )
            depth[child] = max(depth[child], depth[number] + 1)


def _check_blobs(entries: list[Entry], available: int, place: str) -> None:
    """The modules' bytes lie in order, aligned, without overlap or gap, and end where the file ends."""
    end = 0
    for number, entry in enumerate(entries):
        if entry.offset is None:
            continue
        where = f"the index of {place}: the bytes of module {number} ({entry.kind})"
        if entry.offset < end:
            raise FormatError(f"{where} overlap those before them: they begin at {entry.offset}, and those end at {end}")
        if entry.offset != aligned(end):
            raise FormatError(f"{where} have a bad offset: {entry.offset}, and {aligned(end)} is due")
        end = entry.offset + entry.size
        if available >= 0 and end > available:
            raise FormatError(f"{where} end at {end}, and there are {available}: the file is cut short, or the size is wrong")
    if available >= 0 and end != available:
        raise FormatError(f"{place}: {available - end} more bytes than its index describes")
