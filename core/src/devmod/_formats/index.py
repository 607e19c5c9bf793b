"""The parts of a ``.devmod`` file's index: its header, its head, and the records of modules in its
pages.

`devmod._formats.pages` reads the index of a file, and `devmod._files.save` writes it.
"""

from __future__ import annotations

from devmod._formats import LIBRARY
from devmod._formats.msgpack import Reader
from devmod._util.digest import sha256_of
from devmod._util.text import is_valid_name
from devmod.errors import FormatError, count_text, list_names, pip_install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence
    from typing import Any

    from devmod._formats.repeats import Repeats
    from devmod._values.origin import Origin

    #: The size of each part, its SHA-256, by which a source may take it from a cache, and the
    #: number of bytes between it and the next part.
    Parts = Sequence[tuple[int, bytes | None, int]]
    #: Return the parts from an offset of the file on. Each is followed by the bytes behind it,
    #: unless it is from a cache.
    Read = Callable[[int, Parts], Sequence[memoryview]]
    #: The offset, the size and the SHA-256 of a part.
    Place = tuple[int, int, bytes | None]
    #: Return parts that follow each other, after a check of the bytes between them. From a server,
    #: they are one request.
    ReadParts = Callable[[Sequence[Place]], Sequence[memoryview]]

# Where to change: the header of a file
#   here: `MAGIC`, `HEADER`, `read_head`
#   also: `core/src/devmod/_files/save.py` (`write`) writes it; `extras/browser/js/src/head.js` has
#     the browser's copy; docs/formats.md
#   tests: `tests/test_repository.py`, `tests/test_formats_page.py`
MAGIC = b"\x89devmod\n"
#: The number in the header of version 1 of the format, the newest. Lower numbers are of files that
#: no release wrote.
NUMBER = 6
#: The bytes of the header: magic, number, length and SHA-256 of the head. The page and remote files
#: use the same number.
HEADER = 48
ALIGN = 64
#: The kind of a node without bytes. Its imports are the candidates.
BUNDLE = "bundle"
#: The maximum number of nodes without bytes, minus the number of modules with bytes. Such a node
#: takes only 13 bytes in a file.
MAX_BARE = 1024
#: The maximum depth of imports in a bundle and in the output of `devmod inspect`.
MAX_DEPTH = 64
NO_DIGEST = bytes(32)
# Where to change: a limit of a reader
#   here: `MAX_…` and `_MAX_…` at the top of the reader's file: `core/src/devmod/_formats/index.py`
#     and `core/src/devmod/_formats/msgpack.py` for devmod's own files,
#     `compilers/readers/src/devmod_readers/` for other formats
#   also: for devmod's own files the other readers: `compilers/readers/c/devmod_reader.c`,
#     `extras/browser/js/src/head.js` with `pages.js` and `repeats.js` beside it,
#     `tests/spec_reader.py`; `docs/formats.md`
#   tests: `tests/test_repository.py`, `tests/test_formats_page.py`, `tests/test_new_members.py`
#: The maximum size of a head and of a page in bytes.
MAX_INDEX = 64 << 20
#: The most bytes by which the bytes of a record begin behind a multiple of `ALIGN`, and the largest
#: number of which the offset of the first bytes is a multiple.
MAX_SHIFT = 0xFFFF
MAX_ALIGN = 1 << 16
#: The kind of the modules that have parts.
CONSTANTS = "const_loader"
#: The tag of the attachments with tuning records (`devmod._formats.tuning`).
TUNING = "tuning+"
#: The last characters of names that a save keeps, or that make it an error, if it does not know
#: them. Others are dropped.
KEEP = "+"
REFUSE = "!"
#: What an entry is, as messages say it.
MODULE = "module"
SOURCES = "sources"
PART = "part"
ATTACHMENT = "attachment"
#: What the records below a key of a page are.
ROLES = {"modules": MODULE, "sources": SOURCES, "parts": PART}
#: The key of an entry whose bytes are compressed, which names the method (`devmod._formats.blobs`).
COMPRESSED = "zstd"
#: The key of an origin with the library that compressed the bytes.
COMPRESSION = "compression"
#: The limits on compressed bytes: n bytes unpack to ``n * MAX_RATIO`` bytes, and those of a whole
#: file to ``FREE_UNPACKED`` more.
FREE_UNPACKED = 1 << 20
MAX_RATIO = 256

_LOCATION = ("size", "sha256")
#: The keys that a node without bytes does not have, those of an entry that is no module, and those
#: that an attachment has too.
_OF_BYTES = (*_LOCATION, COMPRESSED, "repeats", "sources", "features", "shift", "parts")
_OF_OTHERS = (*_LOCATION, COMPRESSED, "features", "shift")

#: The attributes of `Entry` whose keys have other names.
_RENAMED = {"format": "fmt", "origin": "origin_at", "sha256": "digest", COMPRESSED: "unpacked"}


# Where to change: a field of a file
#   here: `Entry`, `_FIELDS`; `pages.py` reads the index, `core/src/devmod/_files/index_writer.py`
#     writes it
#   also: `docs/formats.md`, and the other readers: `compilers/readers/c/devmod_reader.c`
#     (`read_record`), `extras/browser/js/src/head.js` (`readEntry`), `tests/spec_reader.py`
#     (`KEYS`)
#   tests: `tests/test_two_places.py`, `tests/test_readers.py`
class Entry:
    """One module in the index; or sources of modules, or a part of constants, which have no kind.

    ``offset``, ``size`` and ``digest`` describe the bytes in the file; ``offset`` is None for a
    node without bytes. ``unpacked`` is the size and the digest of the bytes that zstd compressed to
    them; None if they are not compressed. ``repeats`` are the ranges of these bytes that the
    module's bytes have several times. ``sources`` is the number of the entry of the module's
    sources, and ``parts`` those of its large constants. ``rank`` is the position of a candidate
    among the candidates. ``origin_at`` is the offset of the origin in the page, which is
    not decoded; -1 without. ``features`` is what a reader must know to use the bytes. ``shift`` is
    the number of bytes between a multiple of 64 and the module's bytes. ``extra`` has the unknown
    keys. ``function`` and ``tag`` are those of an attachment.
    """

    role: str = MODULE

    kind: str
    imports: Sequence[int] = ()
    features: Sequence[str] = ()
    rank: int | None = None
    fmt: str = ""
    functions: Sequence[str] = ()
    variant: str = ""
    origin_at: int = -1
    offset: int | None = None
    size: int = 0
    digest: bytes = NO_DIGEST
    unpacked: tuple[int, bytes] | None = None
    repeats: Repeats = ()
    shift: int = 0
    sources: Any = None
    parts: Sequence[int] = ()
    extra: Mapping[str, Any] = {}
    function: str = ""
    tag: str = ""

    def __init__(self, kind: str, **fields: Any) -> None:
        fields["kind"] = kind
        self.__dict__ = fields  # a file may have 100,000

    @property
    def stored_size(self) -> int:
        """The size of the bytes without their repeats, decompressed."""
        if self.unpacked is None:
            return self.size
        return self.unpacked[0]

    @property
    def stored_digest(self) -> bytes:
        """The SHA-256 of the bytes without their repeats, decompressed."""
        if self.unpacked is None:
            return self.digest
        return self.unpacked[1]

    @property
    def location(self) -> tuple[int, int, bytes]:
        """The offset, the size and the digest of the bytes in the file."""
        assert self.offset is not None
        return self.offset, self.size, self.digest


class StoredBytes:
    """The bytes that an entry of an open file has: those of a module, or a part.

    Attributes
    ----------
    entry
        The entry.
    kind
        The kind of a FormatError.
    subject
        What the bytes are of, for messages.
    has_digest
        Whether the entry has the digest of the bytes.
    is_msgpack
        Whether they are objects of msgpack, of which there is a limit.
    """

    entry: Entry
    kind: str
    subject: str
    has_digest = True
    is_msgpack = True
    _is_damaged = (
        "is damaged: its SHA-256 is not the one in the index. "
        "Nothing of it was used. Get the file again from where it came"
    )

    def _packed(self) -> memoryview:
        """Return the bytes in the file, without a check of their digest."""
        raise NotImplementedError

    def unverified(self) -> tuple[memoryview, ...]:
        """Return the bytes in the file without a check, for a caller that hashes them and calls
        `check`.
        """
        return (self._packed(),)

    def check(self, digest: bytes) -> None:
        """Raise FormatError if `digest`, which was computed from the bytes in the file, is not the
        one in the index.
        """
        if self.has_digest and digest != self.entry.digest:
            raise self._error(self._is_damaged)

    def unpack(self) -> memoryview:
        """Return the bytes to which those in the file unpack, with their digest checked. They are
        not kept.
        """
        from devmod._formats.blobs import decompress

        unpacked = self.entry.unpacked
        assert unpacked is not None
        packed = self._packed()  # an error of these is no damage
        try:
            return decompress(packed, unpacked, self.subject, self.kind, is_msgpack=self.is_msgpack)
        except FormatError:
            self.check(sha256_of(packed))  # a damaged file
            raise

    def _error(self, problem: str) -> FormatError:
        return FormatError(f"{self.subject} {problem}", kind=self.kind)


def aligned(offset: int, align: int = ALIGN) -> int:
    """Return the next multiple of a number, by default of 64."""
    return -(-offset // align) * align


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

# The layout: offset, size, content. Integers of the header are little-endian. docs/formats.md has
# all rules.
#
#   0    8   magic, 89 "devmod" 0A (a transfer in text mode changes the first byte or the newline)
#   8    4   u32 6, the number of version 1 of the format
#   12   4   u32 length of the head
#   16   32  SHA-256 of the head
#   48       the head, one msgpack map:
#              candidates  the number of candidates
#              roots       array of numbers of modules; several roots are the candidates of a
#                          `bundle`. Missing: the candidates
#              align       the bytes of the records begin at a multiple of it. Missing: 64
#              pages       array of arrays: the number of records, the size of the page, the size of
#                          their bytes, the SHA-256 of the page; and of pages with names: how many
#                          bytes the first name has of the name before, and its further bytes
#              sections    array of arrays: a name, a size and a SHA-256, of bytes behind those of
#                          the records. None is known
#   …        the pages, each one msgpack map:
#              modules  array of maps, the records; records are numbered through all pages:
#                kind, format, variant  str; "bundle" and "_lib" are nodes without bytes
#                imports    array of numbers
#                functions  array of str, the names that callers use
#                rank       the position of a candidate among the candidates
#                features   array of str, what a reader must know to use the bytes. None is known
#                origin     map (Origin.to_dict)
#                size, sha256  of the bytes in the file
#                shift      how many bytes behind a multiple of 64 the bytes begin
#                zstd       array of size and SHA-256 of what these bytes unpack to, if they are
#                           compressed
#                repeats    array of arrays of offset and size of a range of the (unpacked) bytes,
#                           and the positions in them at which the module's bytes have it again
#                sources    number of the module's sources
#                parts      array of numbers: the large constants of a const_loader
#              sources  array of maps with features, size, sha256, shift and zstd, as above; each is
#                       used by a module. They are records too
#              parts    array of such maps: constants
#              attached array of such maps with the keys function and tag: bytes of a function that
#                       has its page. `devmod._formats.tuning` reads "tuning+". They have no number
#              names    array of arrays: a name, and for each candidate of another page with this
#                       function three numbers: its own, its rank, a position in variants
#              variants array of arrays: a kind, a format and a variant
#              calls    map of function to array: `devmod._modules.agreement` reads it
#              A reader ignores unknown keys. A key that a reader must not ignore requires a new
#              number, or an item of features. The last character of an unknown name says whether a
#              save drops it, keeps it (+) or is refused (!).
#   …        the bytes of the records in their order, and behind those of a page the ones attached
#            to its functions, each at the next multiple of 64 after zeros, or `shift` bytes behind
#            it. The sections follow. The file ends with the last of them.


def not_a_bundle(place: str) -> str:
    """Return the message for data without the magic of a bundle.

    `place` is the name of the data.
    """
    return f"{place} is not a bundle: it does not begin with the magic bytes of a .devmod file"


def head_length(data: memoryview, place: str) -> int:
    """Check the header at the start of `data`, and return the length of the head.

    Raises
    ------
    FormatError
        The data is not a bundle, is cut short or damaged, or was written by a newer devmod, or
        before the first release.
    """
    if data[:8] != MAGIC[: len(data)] or not data:
        raise FormatError(not_a_bundle(place))
    if len(data) < HEADER:
        raise FormatError(
            f"{place} is cut short: {count_text(len(data), 'byte')}, and the header alone takes {HEADER}"
        )
    number = int.from_bytes(data[8:12], "little")
    length = int.from_bytes(data[12:16], "little")
    if number > NUMBER:
        raise FormatError(
            f"{place} is in version {number - NUMBER + 1} of the .devmod format, and this devmod reads version 1: "
            f"{pip_install('-U', 'devmod-core')}"
        )
    if 0 < number < NUMBER:
        raise FormatError(
            f"{place} is a development file, from before version 1 of the .devmod format: build it again"
        )
    if number < 1:
        raise FormatError(
            f"{place} is damaged: the number {number} of the .devmod format does not exist"
        )
    if length > MAX_INDEX:
        raise FormatError(
            f"{place} is damaged: its head has {count_text(length, 'byte')}; the limit is {MAX_INDEX}"
        )
    return length


def read_head(data: memoryview, place: str) -> memoryview:
    """Check the header and the digest of the head, and return the head. The errors are those of
    `head_length`.
    """
    length = head_length(data, place)
    if length > len(data) - HEADER:
        raise FormatError(
            f"{place} is cut short: a head of {count_text(length, 'byte')}, and {len(data) - HEADER} are left"
        )
    head = data[HEADER : HEADER + length]
    if sha256_of(head) != data[16:HEADER]:
        raise FormatError(
            f"{place} is damaged: the SHA-256 of its head is not the one in its header. Get the file again"
        )
    return head


def read_origin(page: bytes, entry: Entry, number: int, subject: str) -> Origin:
    """Decode the origin of a module.

    Parameters
    ----------
    page, subject
        The page with the record, and its name in messages.
    entry, number
        The module and its number.

    Raises
    ------
    FormatError
        The value is not an origin; the message names the module.
    """
    from devmod._values.origin import Origin

    reader = Reader(page, subject)
    reader.within = f"modules, {number}"
    reader.field = "origin"
    reader.at = entry.origin_at
    fields = reader.read_map_object()
    try:
        return Origin.from_dict(fields)
    except FormatError as error:
        raise reader.error(str(error), entry.origin_at) from None


def read_records(reader: Reader, first: int) -> list[Entry]:
    """Read the records below a key of a page. The number of the first is `first`."""
    key = reader.field
    role = ROLES.get(key, ATTACHMENT)
    entries = []
    for number in range(reader.read_array()):
        reader.within = f"{key}, {first + number}"
        reader.field = ""
        entries.append(_read_entry(reader, role))
    reader.within = ""
    return entries


def read_attached(reader: Reader) -> dict[tuple[str, str], Entry]:
    """Read the attachments of a page, by their functions and tags."""
    start = reader.at
    entries = read_records(reader, 0)
    attached = {(entry.function, entry.tag): entry for entry in entries}
    if len(attached) < len(entries):
        raise reader.error("two attachments have the same function and tag", start)
    return attached


def _read_entry(reader: Reader, role: str) -> Entry:
    """Read a record. Its offset is 0 if it has bytes."""
    start = reader.at
    known, attributes = _FIELDS_OF[role]
    fields = reader.read_fields(known)
    if role == MODULE:
        problem = _module_problem(fields)
        if problem:
            raise reader.error(problem, start)
    else:
        required: Sequence[str] = _LOCATION
        if role == ATTACHMENT:
            required = (*_OF_ATTACHMENTS, *_LOCATION)
        for each in required:
            if each not in fields:
                raise reader.error(f"no {each}", start)
    digest = fields.get("sha256", NO_DIGEST)
    if len(digest) != 32:
        raise reader.error(f"a sha256 of {count_text(len(digest), 'byte')}", start)
    made = {attributes[key]: value for key, value in fields.items() if key in attributes}
    if len(made) < len(fields):
        made["extra"] = unknown(fields, attributes)
    if "size" in fields:
        made["offset"] = 0
    if role == MODULE:
        return Entry(**made)
    return Entry("", role=role, **made)


def _module_problem(fields: Mapping[str, Any]) -> str:
    """Return what is wrong with the record of a module, or ""."""
    kind = fields.get("kind", "")
    article = ""
    if kind in (BUNDLE, LIBRARY):
        if not fields.keys().isdisjoint(_OF_BYTES):
            article = "no"
    elif not is_valid_name(kind):
        return "no kind, or one that is not of the form [a-z][a-z0-9_]{0,31}"
    elif "size" not in fields or "sha256" not in fields:
        article = "a"
    if article:
        found = [key for key in _OF_BYTES if key in fields]
        return f"a module of kind {kind!r} has {article} size and sha256; found: {', '.join(found) or 'none'}"
    if fields.get("parts") and kind != CONSTANTS and not fields.get("features"):
        return f"a module of kind {kind!r} has parts, which only constants and modules with features have"
    return ""


def unknown(fields: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Return the fields that are unknown."""
    return {key: value for key, value in fields.items() if key not in known}


def newer_features(features: Sequence[str]) -> str:
    """Return the features of a record in a message: this devmod does not have them."""
    upgrade = pip_install("--upgrade devmod-core")
    return f"{list_names(features)}, which a newer devmod reads: {upgrade}"


def _read_unpacked(reader: Reader) -> tuple[int, bytes]:
    """Read the size and the digest of the bytes that zstd compressed."""
    start = reader.at
    if reader.read_array() == 2:
        size = read_size(reader)
        digest = bytes(reader.read_bin())
        if len(digest) == 32:
            return size, digest
    raise reader.error("expected an array of a size and a SHA-256", start)


def read_size(reader: Reader) -> int:
    """Read a size in bytes."""
    return reader.read_int(0, 2**63 - 1)


def read_number(reader: Reader) -> int:
    """Read the number of a record."""
    return reader.read_int(0, 2**32 - 1)


def read_numbers(reader: Reader) -> tuple[int, ...]:
    """Read an array of numbers of records."""
    return reader.read_numbers(2**32 - 1)


def _read_repeats(reader: Reader) -> Repeats:
    return [reader.read_numbers(2**63 - 1) for _ in range(reader.read_array())]


def _skip_origin(reader: Reader) -> int:
    """Skip an origin, whose contents `read_origin` decodes, and return its offset."""
    start = reader.at
    if not reader.skip(free=True):
        reader.read_map_object()  # the strict reader raises the error that names the place
    return start


def fields_of(
    readers: Mapping[str, Callable[[Reader], Any]],
) -> dict[bytes, tuple[str, Callable[[Reader], Any]]]:
    """Return the fields of a map for `Reader.read_fields`: for the key as devmod writes it, the key
    and the reader of its value.
    """
    fields = {}
    for key, read in readers.items():
        fields[bytes((0xA0 | len(key),)) + key.encode()] = (key, read)
    return fields


#: The fields of a module.
_FIELDS = fields_of(
    {
        "kind": Reader.read_str,
        "imports": read_numbers,
        "format": Reader.read_str,
        "functions": Reader.read_texts,
        "variant": Reader.read_str,
        "rank": read_number,
        "features": Reader.read_texts,
        "origin": _skip_origin,
        "size": read_size,
        "sha256": Reader.read_bin,
        "shift": lambda reader: reader.read_int(0, MAX_SHIFT),
        COMPRESSED: _read_unpacked,
        "repeats": _read_repeats,
        "sources": read_number,
        "parts": read_numbers,
    }
)
_OF_ATTACHMENTS = ("function", "tag")


def _with_attributes(fields: dict[bytes, Any]) -> tuple[dict[bytes, Any], dict[str, str]]:
    """Return fields, and the attribute of `Entry` for each key."""
    return fields, {key: _RENAMED.get(key, key) for key, _ in fields.values()}


_SOURCE_FIELDS = {packed: field for packed, field in _FIELDS.items() if field[0] in _OF_OTHERS}
_FIELDS_OF = dict.fromkeys(ROLES.values(), _with_attributes(_SOURCE_FIELDS))
_FIELDS_OF[MODULE] = _with_attributes(_FIELDS)
_FIELDS_OF[ATTACHMENT] = _with_attributes(
    _SOURCE_FIELDS | fields_of(dict.fromkeys(_OF_ATTACHMENTS, Reader.read_str))
)


def candidates_of(
    roots: Iterable[int], imports_of: Callable[[int], Sequence[int] | None]
) -> list[int]:
    """Return the numbers of `BundleModule.candidates`. `imports_of` returns the imports of a
    bundle, and None for another module.
    """
    pending = [*roots][::-1]
    seen = set()
    results = []
    while pending:
        number = pending.pop()
        if number not in seen:
            seen.add(number)
            imports = imports_of(number)
            if imports is None:
                results.append(number)
            else:
                pending.extend(reversed(imports))
    return results


def check_tree(
    number: int,
    imports_of: Callable[[int], Iterable[int]],
    heights: dict[int, int],
    place: str,
    path: frozenset[int] = frozenset(),
) -> int:
    """Check that the tree below a module has no cycle and is at most `MAX_DEPTH` deep, and return
    the longest path in modules.

    Parameters
    ----------
    number
        The module.
    imports_of
        Returns the imports of a module, and raises FormatError if there is no such module.
    heights
        The results for the modules that were checked. Those of this one and below are added.
    place
        The name of the file in messages.
    path
        The modules on the way from the root to this one.
    """
    if number in path:
        raise FormatError(
            f"the index of {place}: module {number} imports itself, directly or through others"
        )
    height = heights.get(number, 0)
    if not height and len(path) < MAX_DEPTH:
        below = path | {number}
        height = 1
        for each in imports_of(number):
            height = max(height, 1 + check_tree(each, imports_of, heights, place, below))
        heights[number] = height
    if not height or len(path) + height > MAX_DEPTH:
        raise FormatError(
            f"the index of {place}: module {number} is more than {MAX_DEPTH} imports deep"
        )
    return height


def check_nodes(bare: int, count: int, place: str) -> None:
    """Check the limit on nodes without bytes, of which there are `bare` among the modules."""
    if 2 * bare - count > MAX_BARE:
        found = f"{bare} nodes without bytes and {count - bare} modules with some"
        raise FormatError(
            f"the index of {place}: {found}; there may be {MAX_BARE} more of the first"
        )


def check_blob(entry: Entry, number: int, place: str, unpacking: Unpacking) -> None:
    """Check that the bytes of an entry unpack to an allowed size, and their repeats."""
    if entry.features:  # they may give both another meaning, and nothing of the bytes is used
        return
    if entry.role == ATTACHMENT:
        subject = f"the attachment {entry.tag!r} of {entry.function!r}"
    elif entry.role == PART:
        subject = "a part"
    elif not entry.kind:
        subject = "sources"
    else:
        subject = f"module {number} ({entry.kind})"
    subject = f"the index of {place}: the bytes of {subject}"
    size = entry.size
    unpacked = entry.stored_size
    if entry.unpacked is not None and not unpacking.add(size, unpacked):
        raise FormatError(
            f"{subject} unpack from {size} to {count_text(unpacked, 'byte')}; the limit is {unpacking.free + size * MAX_RATIO}"
        )
    if entry.repeats:
        from devmod._formats.repeats import check_repeats  # few files have some

        check_repeats(entry.repeats, unpacked, size, subject)
