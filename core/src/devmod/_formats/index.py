"""Read and check the head of a ``.devmod`` file: the magic, the version, the digest and the index.

The index contains the offset, the size and the digest of each module's bytes.
"""

from __future__ import annotations

from devmod._formats.msgpack import Reader
from devmod._modules.module import LIBRARY
from devmod._util.digest import sha256_of
from devmod._util.text import is_valid_name
from devmod.errors import FormatError, pip_install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod._formats.repeats import Repeats
    from devmod._values.origin import Origin

MAGIC = b"\x89devmod\n"
#: The newest version. A file has the lowest version that has all of its parts.
VERSION = 3
#: The bytes of the header: magic, version, length and SHA-256 of the index. The page and remote files use the same number.
HEADER = 48
ALIGN = 64
#: The kind of a node without bytes. Its imports are the candidates.
BUNDLE = "bundle"
#: The maximum number of nodes without bytes, minus the number of modules with bytes. Such a node takes only 13 bytes in a file.
MAX_BARE = 1024
#: The maximum depth of imports in a bundle and in the output of `devmod inspect`.
MAX_DEPTH = 64
NO_DIGEST = bytes(32)
#: The maximum size of an index in bytes. It allows some hundred thousand modules.
MAX_INDEX = 64 << 20
#: The packed keys of the table of functions, at byte 1 of an index: of files without imports, and of others.
LOOKUP, TREE_LOOKUP = b"\xa6lookup", b"\xabtree_lookup"
#: The key of an entry whose bytes are compressed, which names the method (`devmod._formats.blobs`).
COMPRESSED = "zstd"
#: The key of an origin with the library that compressed the bytes.
COMPRESSION = "compression"
#: The limits on compressed bytes: n bytes unpack to ``n * MAX_RATIO`` bytes, and those of a whole file to ``FREE_UNPACKED`` more.
FREE_UNPACKED, MAX_RATIO = 1 << 20, 256


class Entry:
    """One module in the index, or the sources of modules, which have the kind "".

    ``offset``, ``size`` and ``digest`` describe the bytes in the file; ``offset`` is None for a node without bytes. ``unpacked`` is the
    size and the digest of the bytes that zstd compressed to them; None if they are not compressed. ``repeats`` are the ranges of these
    bytes that the module's bytes have several times. ``sources`` is the entry of the module's sources. ``origin`` is the origin to
    write. `read_index` does not decode an origin: it sets ``origin_at`` to the offset of the origin in the index, or to -1 if there is
    none.
    """

    __slots__ = (
        "digest", "fmt", "functions", "imports", "kind", "offset", "origin", "origin_at", "repeats", "size", "sources", "unpacked",
        "variant",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        imports: Sequence[int] = (),
        *,
        fmt: str = "",
        functions: Sequence[str] = (),
        variant: str = "",
        origin: Origin | None = None,
        origin_at: int = -1,
        offset: int | None = None,
        size: int = 0,
        digest: bytes = NO_DIGEST,
        unpacked: tuple[int, bytes] | None = None,
        repeats: Repeats = (),
        sources: Entry | None = None,
    ) -> None:
        self.kind = kind
        self.imports = imports
        self.fmt = fmt
        self.functions = functions
        self.variant = variant
        self.origin = origin
        self.origin_at = origin_at
        self.offset = offset
        self.size = size
        self.digest = digest
        self.unpacked = unpacked
        self.repeats = repeats
        self.sources = sources

    @property
    def stored_size(self) -> int:
        """The size of the bytes without their repeats, decompressed."""
        return self.size if self.unpacked is None else self.unpacked[0]

    def to_dict(self, numbers: Mapping[Entry, int] | None = None) -> dict[str, Any]:
        """Return the map for the index, without empty fields. `numbers` are those of all sources."""
        texts = {"kind": self.kind, "imports": self.imports, "format": self.fmt, "functions": self.functions, "variant": self.variant}
        fields: dict[str, Any] = {key: value for key, value in texts.items() if value}
        if self.origin is not None:
            fields["origin"] = self.origin.to_dict()
        if self.offset is not None:
            fields |= {"offset": self.offset, "size": self.size, "sha256": self.digest}
        if self.unpacked is not None:
            fields[COMPRESSED] = self.unpacked
        if self.repeats:
            fields["repeats"] = self.repeats
        if self.sources is not None and numbers is not None:
            fields["sources"] = numbers[self.sources]
        return fields


def aligned(offset: int) -> int:
    """Return the next multiple of 64."""
    return -(-offset // ALIGN) * ALIGN


class Unpacking:
    """The bytes to which the compressed bytes of one file unpack.

    Attributes
    ----------
    free : int
        The bytes beyond ``MAX_RATIO`` that the rest of the file may unpack to.
    """

    def __init__(self) -> None:
        self.free = FREE_UNPACKED

    def add(self, size: int, unpacked: int) -> bool:
        """Count bytes. Return False if they exceed the limit, and count nothing."""
        excess = unpacked - size * MAX_RATIO
        if excess > self.free:
            return False
        self.free -= max(excess, 0)
        return True


# -- reading

# The layout: offset, size, content. Integers of the header are little-endian. docs/formats.md has all rules.
#
#   0    8   magic, 89 "devmod" 0A (a transfer in text mode changes the first byte or the newline)
#   8    4   u32 version of the format, 1 to 3
#   12   4   u32 length of the index
#   16   32  SHA-256 of the index
#   48       the index, one msgpack map:
#              lookup, tree_lookup  one of them: the table of `devmod._formats.function_table`, which a reader may ignore
#              calls    map of function to array: `devmod._modules.agreement` reads it
#              roots    array of numbers of modules; several roots are the candidates of a `bundle`
#              modules  array of maps; the number of a module is its position:
#                kind, format, variant  str; "bundle" and "_lib" are nodes without bytes
#                imports    array of numbers, each greater than the module's own, so a cycle is impossible
#                functions  array of str, the names that callers use
#                origin     map (Origin.to_dict)
#                offset     offset of the bytes from the first multiple of 64 after the index
#                size, sha256  of the bytes in the file
#                zstd       version 2: array of size and SHA-256 of what these bytes unpack to, if they are compressed
#                repeats    version 3: array of arrays of offset and size of a range of the (unpacked) bytes, and the positions in them
#                           at which the module's bytes have that range again
#                sources    version 2: number of the module's sources
#              sources  version 2: array of maps with offset, size, sha256 and zstd, as above; each is used by a module
#              A reader ignores unknown keys. A key that a reader must not ignore requires a new version.
#   …        the modules' bytes, then the sources, in the order of the index, each at the next multiple of 64 after zeros. The file
#            ends with the last of them.


def not_a_bundle(place: str) -> str:
    """Return the message for data without the magic of a bundle. `place` is the name of the data."""
    return f"{place} is not a bundle: it does not begin with the magic bytes of a .devmod file"


def index_length(data: memoryview, place: str) -> int:
    """Check the header at the start of `data`, and return the length of the index.

    Raises
    ------
    FormatError
        The data is not a bundle, is cut short or damaged, or was written by a newer devmod.
    """
    if data[:8] != MAGIC[: len(data)] or not data:
        raise FormatError(not_a_bundle(place))
    if len(data) < HEADER:
        raise FormatError(f"{place} is cut short: {len(data)} bytes, and the header alone takes {HEADER}")
    version, length = int.from_bytes(data[8:12], "little"), int.from_bytes(data[12:16], "little")
    if version > VERSION:
        raise FormatError(
            f"{place} is in version {version} of the .devmod format, and this devmod reads versions 1 to {VERSION}: "
            f"{pip_install('-U', 'devmod-core')}"
        )
    if version < 1:
        raise FormatError(f"{place} is damaged: version {version} of the .devmod format does not exist")
    if length > MAX_INDEX:
        raise FormatError(f"{place} is damaged: its index has {length} bytes; the limit is {MAX_INDEX}")
    return length


def read_head(data: memoryview, place: str) -> memoryview:
    """Check the header and the digest of the index, and return the index. The errors are those of `index_length`."""
    length = index_length(data, place)
    if length > len(data) - HEADER:
        raise FormatError(f"{place} is cut short: an index of {length} bytes, and {len(data) - HEADER} are left")
    index = data[HEADER : HEADER + length]
    if sha256_of(index) != data[16:HEADER]:
        raise FormatError(f"{place} is damaged: the SHA-256 of its index is not the one in its header. Get the file again")
    return index


def read_index(index: memoryview, available: int, place: str, version: int = VERSION) -> tuple[list[int], list[Entry]]:
    """Return the numbers of the roots, and the modules.

    Parameters
    ----------
    index
        The result of `read_head`.
    available
        The number of bytes for the modules; -1 disables the check.
    place
        The name of the file in messages.
    version
        The version of the file.

    Raises
    ------
    FormatError
        The index is not of the form above; the message names the module and its field.
    """
    reader = Reader(bytes(index), f"the index of {place}")
    roots: list[int] | None = None
    entries: list[Entry] | None = None
    sources: list[Entry] = []
    names: set[str] = set()
    for _ in range(reader.read_map()):
        reader.field = ""
        key = reader.read_key(names)
        names.add(key)
        reader.field = key
        if key == "roots":
            roots = list(_read_numbers(reader))
        elif key == "modules":
            entries = [read_entry(reader, number) for number in range(reader.read_array())]
            reader.within = ""
        elif key == "sources":
            sources = [_read_sources(reader, number) for number in range(reader.read_array())]
            reader.within = ""
        else:
            reader.read_value()
    reader.finish()
    if roots is None or entries is None:
        raise FormatError(f"the index of {place} has no {'roots' if roots is None else 'modules'}")
    check_tree(roots, entries, place)
    _link_sources(entries, sources, place)
    _check_blobs([*entries, *sources], available, place)
    check_version(version, entries, bool(sources), place)
    return roots, entries


def check_version(version: int, entries: Sequence[Entry], has_sources: bool, place: str) -> None:
    """Raise FormatError if modules have what the version of the file does not have."""
    for needed, part in newer_parts(entries, has_sources):
        if version < needed:
            raise FormatError(f"the index of {place} has {part}, which version {version} of the format does not have")


def newer_parts(entries: Sequence[Entry], has_sources: bool) -> list[tuple[int, str]]:
    """Return what modules have that version 1 of the format does not have: the lowest version with it, and its name."""
    compressed = [(2, "compressed bytes or sources")] if has_sources or any(entry.unpacked for entry in entries) else []
    return compressed + ([(3, "repeats")] if any(entry.repeats for entry in entries) else [])


def read_origin(index: memoryview, entry: Entry, number: int, place: str) -> Origin:
    """Decode the origin of a module in an index that `read_index` read.

    Parameters
    ----------
    index, place
        As for `read_index`.
    entry, number
        The module and its number.

    Raises
    ------
    FormatError
        The value is not an origin; the message names the module.
    """
    from devmod._values.origin import Origin

    reader = Reader(index, f"the index of {place}")
    reader.within, reader.field, reader.at = f"modules, {number}", "origin", entry.origin_at
    fields = reader.read_map_object()
    try:
        return Origin.from_dict(fields)
    except FormatError as error:
        raise reader.error(str(error), entry.origin_at) from None


def read_entry(reader: Reader, number: int) -> Entry:
    """Read a module. Its sources are a number, which `read_index` replaces."""
    reader.within, reader.field = f"modules, {number}", ""
    start = reader.at
    fields = reader.read_fields(_FIELDS)
    kind = fields.get("kind", "")
    bare = kind in (BUNDLE, LIBRARY)
    if not bare and not is_valid_name(kind):
        raise reader.error("no kind, or one that is not of the form [a-z][a-z0-9_]{0,31}", start)
    if bare or not all(key in fields for key in _LOCATION):
        located = [key for key in (*_LOCATION, COMPRESSED, "repeats", "sources") if key in fields]
        if not bare or located:
            article = "no" if bare else "an"
            raise reader.error(
                f"a module of kind {kind!r} has {article} offset, size and sha256; found: {', '.join(located) or 'none'}", start
            )
    if len(digest := fields.get("sha256", NO_DIGEST)) != 32:
        raise reader.error(f"a sha256 of {len(digest)} bytes", start)
    return Entry(**{_ATTRIBUTES[key]: value for key, value in fields.items() if key in _ATTRIBUTES})


def _read_sources(reader: Reader, number: int) -> Entry:
    reader.within, reader.field = f"sources, {number}", ""
    start = reader.at
    fields = reader.read_fields(_SOURCE_FIELDS)
    missing = [key for key in _LOCATION if key not in fields]
    if missing or len(fields["sha256"]) != 32:
        raise reader.error(f"no {missing[0]}" if missing else f"a sha256 of {len(fields['sha256'])} bytes", start)
    return Entry("", **{_ATTRIBUTES[key]: fields[key] for key in (*_LOCATION, COMPRESSED) if key in fields})


def _read_unpacked(reader: Reader) -> tuple[int, bytes]:
    """Read the size and the digest of the bytes that zstd compressed."""
    start = reader.at
    if reader.read_array() == 2:
        size, digest = _read_size(reader), bytes(reader.read_bin())
        if len(digest) == 32:
            return size, digest
    raise reader.error("expected an array of a size and a SHA-256", start)


def _read_size(reader: Reader) -> int:
    return reader.read_int(0, 2**63 - 1)


def _read_numbers(reader: Reader) -> tuple[int, ...]:
    return reader.read_numbers(2**32 - 1)


def _skip_origin(reader: Reader) -> int:
    """Skip an origin, whose contents `read_origin` decodes, and return its offset."""
    start = reader.at
    if not reader.skip(free=True):
        reader.read_map_object()  # the strict reader raises the error that names the place
        raise reader.error("the framing of the origin is invalid", start)
    return start


#: The fields of a module: the key as devmod writes it, the key, and the function that reads the value.
_FIELDS: dict[bytes, tuple[str, Callable[[Reader], Any]]] = {
    bytes((0xA0 | len(key),)) + key.encode(): (key, read)
    for key, read in (
        ("kind", Reader.read_str),
        ("imports", _read_numbers),
        ("format", Reader.read_str),
        ("functions", lambda reader: tuple([reader.read_str() for _ in range(reader.read_array())])),
        ("variant", Reader.read_str),
        ("origin", _skip_origin),
        ("offset", _read_size),
        ("size", _read_size),
        ("sha256", Reader.read_bin),
        (COMPRESSED, _read_unpacked),
        ("repeats", lambda reader: [reader.read_numbers(2**63 - 1) for _ in range(reader.read_array())]),
        ("sources", lambda reader: reader.read_int(0, 2**32 - 1)),
    )
}
#: The attribute of `Entry` for each key. That of the sources is a number, until all sources are read.
_ATTRIBUTES = {key: key for key, _ in _FIELDS.values()}
_ATTRIBUTES |= {"format": "fmt", "origin": "origin_at", "sha256": "digest", COMPRESSED: "unpacked"}
_LOCATION = ("offset", "size", "sha256")
_SOURCE_FIELDS = {packed: field for packed, field in _FIELDS.items() if field[0] in (*_LOCATION, COMPRESSED)}


def check_tree(roots: list[int], entries: list[Entry], place: str) -> None:
    """Check that numbers refer to modules, that each module is in the tree, that there is no cycle, and the limits on depth and nodes."""
    depth = [0] * len(entries)
    for root in roots:
        if root >= len(entries):
            raise FormatError(f"the index of {place}: the root {root} is none of its {len(entries)} modules")
        depth[root] = 1
    if not roots:
        raise FormatError(f"the index of {place} has no root")
    for number, entry in enumerate(entries):
        if not depth[number]:
            raise FormatError(f"the index of {place}: module {number} is neither a root nor imported by a module before it")
        if depth[number] > MAX_DEPTH:
            raise FormatError(f"the index of {place}: module {number} is more than {MAX_DEPTH} imports deep")
        for child in set(entry.imports):
            if child >= len(entries):
                raise FormatError(f"the index of {place}: module {number} imports {child}, and there are {len(entries)} modules")
            if child <= number:
                raise FormatError(
                    f"the index of {place}: module {number} imports {child}, which may be a cycle; expected a number after its own"
                )
            depth[child] = max(depth[child], depth[number] + 1)
    bare = sum(entry.offset is None for entry in entries)
    if 2 * bare - len(entries) > MAX_BARE:
        raise FormatError(
            f"the index of {place}: {bare} nodes without bytes and {len(entries) - bare} modules with some; "
            f"there may be {MAX_BARE} more of the first"
        )
    if len(set(roots)) != len(roots):
        raise FormatError(f"the index of {place} names a root twice")


def _link_sources(entries: list[Entry], sources: list[Entry], place: str) -> None:
    """Replace the number of each module's sources with their entry, and check that a module uses each of them."""
    used = set()
    for number, entry in enumerate(entries):
        if entry.sources is not None:
            source: Any = entry.sources
            if source >= len(sources):
                raise FormatError(f"the index of {place}: module {number} has the sources {source}, and there are {len(sources)}")
            used.add(source)
            entry.sources = sources[source]
    if len(used) < len(sources):
        raise FormatError(f"the index of {place}: no module has the sources {min(set(range(len(sources))) - used)}")


def _check_blobs(entries: list[Entry], available: int, place: str) -> None:
    """Check that the bytes are in order, aligned, without overlap or gap, end at the end of the file, and have an allowed size."""
    end, unpacking = 0, Unpacking()
    for number, entry in enumerate(entries):
        if entry.offset is not None:
            end = check_blob(entry, number, end, available, place, unpacking)
    if available >= 0 and end != available:
        raise FormatError(f"{place}: {available - end} more bytes than its index describes")


def check_blob(entry: Entry, number: int, start: int, available: int, place: str, unpacking: Unpacking) -> int:
    """Check the bytes of an entry, which begin at the first multiple of 64 from `start` on, and return their end."""
    assert entry.offset is not None
    subject = f"the index of {place}: the bytes of {f'module {number} ({entry.kind})' if entry.kind else 'sources'}"
    size, unpacked = entry.size, entry.stored_size
    if entry.unpacked is not None and not unpacking.add(size, unpacked):
        raise FormatError(f"{subject} unpack from {size} to {unpacked} bytes; the limit is {unpacking.free + size * MAX_RATIO}")
    if entry.repeats:
        from devmod._formats.repeats import check_repeats  # few files have some

        check_repeats(entry.repeats, unpacked, size, subject)
    if entry.offset < start:
        raise FormatError(f"{subject} overlap those before them: they begin at {entry.offset}, and those end at {start}")
    if entry.offset != aligned(start):
        raise FormatError(f"{subject} have a bad offset: expected {aligned(start)}, got {entry.offset}")
    end = entry.offset + size
    if 0 <= available < end:
        raise FormatError(f"{subject} end at {end}, and there are {available}: the file is cut short, or the size is wrong")
    return end
