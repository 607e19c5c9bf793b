"""The index of an open ``.devmod`` file. Its head names its pages, which are read when they are
needed (R50).

A candidate is in the page of one of its names. The page of each other name has its kind, format,
variant and rank, so that the page of a function alone is read to choose among its candidates.
"""

from __future__ import annotations

from bisect import bisect_right

from devmod._formats import index as _index
from devmod._formats.index import (
    ALIGN,
    MODULE,
    PART,
    SOURCES,
    Entry,
    aligned,
    check_tree,
    fields_of,
    read_number,
)
from devmod._formats.msgpack import Reader
from devmod._util.digest import sha256_of
from devmod._util.once import Once
from devmod.errors import FormatError, count_text, quote_name

#: The C code of msgpack decodes pages of at most this size. It takes up to 70 bytes of memory for a
#: byte of the file.
_SMALL = 1 << 16

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from devmod._formats.index import Parts, Place, Read, ReadParts
    from devmod._formats.parts import StoredAttachment
    from devmod._values.code import Fields, Names
    from devmod._values.origin import Origin
    from devmod._values.records import TuningRecord

    #: The rank, the kind, the format and the variant of a candidate.
    Claim = tuple[int | None, str, str, str]

_PACKED_ROLES = [*fields_of(dict.fromkeys(_index.ROLES, Reader.read_value)).items()]


class Page:
    """One page: what the head says of it, and what it has."""

    def __init__(
        self,
        first: int,
        count: int,
        at: int,
        size: int,
        blobs: int,
        end: int,
        digest: bytes,
        name: bytes | None,
    ) -> None:
        #: The number of its first record, and of its records.
        self.first = first
        self.count = count
        #: Its place in the file.
        self.at = at
        self.size = size
        self.digest = digest
        #: The place of the bytes of its records, from the start of the first record of the file.
        self.blobs = blobs
        self.end = end
        #: The name from which on it has the names; None for a page without names.
        self.name = name
        self.data = b""
        self.entries: list[Entry] = []
        #: By name the candidates of other pages: of each its number, its rank, and the position of
        #: its kind, format and variant in `variants`.
        self.names: dict[str, tuple[int, ...]] = {}
        self.variants: Sequence[Names] = ()
        self.calls: Any = None
        #: Its attachments by their functions and tags.
        self.attached: dict[tuple[str, str], Entry] = {}
        #: The numbers of its candidates by the names of their functions, which `Index.find` fills.
        self.owners: dict[str, list[int]] = {}

    def others(self, name: str) -> Iterator[tuple[int, Claim]]:
        """Yield the candidates of other pages that have a function, with what the page says of
        each.
        """
        numbers = iter(self.names.get(name, ()))
        for number, rank, variant in zip(numbers, numbers, numbers, strict=True):
            kind, fmt, architecture = self.variants[variant]
            yield number, (rank, kind, fmt, architecture)


class Index:
    """The index of an open file.

    Parameters
    ----------
    head
        The result of `read_head`.
    place
        The name of the file in messages.
    size
        The size of the file; -1 if it is unknown.
    read
        Reads the pages.

    Raises
    ------
    FormatError
        The head is not of the form in `devmod._formats.index`, or the file is cut short; the
        message names the field.
    """

    def __init__(self, head: memoryview, place: str, size: int, read: Read) -> None:
        self.place = place
        self._once = Once()
        self._unpacking = _index.Unpacking()
        #: The heights of `check_tree`, and the number of nodes without bytes below modules that
        #: were looked up.
        self._heights: dict[int, int] = {}
        self._nodes = 0
        #: By number what pages of names have said of candidates of other pages, with the names.
        self._claims: dict[int, tuple[Claim, set[str]]] = {}
        fields = self._read_head(head)
        self.candidates: int = fields["candidates"]
        self.pages: list[Page] = fields["pages"]
        last = self.pages[-1]
        #: The number of records.
        self.count = last.first + last.count
        self._firsts = [page.first for page in self.pages]
        self._names = [page.name for page in self.pages if page.name is not None]
        at = _index.HEADER + len(head)
        for page in self.pages:
            page.at += at
        #: The end of the pages, and the offset at which the bytes of the records begin.
        self.end = last.at + last.size
        self.start = aligned(self.end, fields.get("align", ALIGN))
        if 0 <= size < self.start:
            raise FormatError(
                f"{place} is cut short: {count_text(size, 'byte')}, and its index alone takes {self.start}"
            )
        total = self.start + last.end
        #: The places of the sections by their names.
        self.sections: dict[str, Place] = {}
        for name, (length, digest) in fields.get("sections", {}).items():
            if length:
                total = aligned(total) + length
            self.sections[name] = (total - length, length, digest)
        #: The unknown keys of the head.
        self.extra: Fields = {}
        if not fields.keys() <= _HEAD_KEYS.keys():
            self.extra = _index.unknown(fields, _HEAD_KEYS)
        #: Reads pages and records.
        self.read = _checked(read, place, self.end, total)
        if 0 <= size != total:
            problem = f"has {count_text(size - total, 'byte')} more than its index describes"
            if size < total:
                problem = f"is cut short: {count_text(size, 'byte')}"
            raise FormatError(f"{place} {problem}; expected are {total}")

        #: The numbers of the roots. None: they are the candidates, and `entries` was not called.
        self._roots: Sequence[int] | None = fields.get("roots")
        self._check_roots()
        if len(self.pages) == 1 or self.has_one_root:  # one root needs its whole tree
            self.entries()

    # -- records

    def entry(self, number: int, role: str = MODULE) -> Entry:
        """Return the record of a module, of sources or of a part. FormatError if there is none."""
        if number < self.count:
            page = self._load(self._page_of(number))
            entry = page.entries[number - page.first]
            if entry.role == role:
                if number in self._claims:
                    self._compare(number, entry)
                return entry
        raise FormatError(f"{self._subject} has no {role} of the number {number}")

    def checked(self, number: int) -> Entry:
        """Return a module's record, after a check of the tree below it."""

        def imports_of(number: int) -> Sequence[int]:
            entry = self.entry(number)
            self._nodes += entry.offset is None
            return entry.imports

        check_tree(number, imports_of, self._heights, self.place)
        if self._nodes > _index.MAX_BARE:
            self.entries()  # it has the limit on nodes
        return self.entry(number)

    def origin(self, number: int) -> Origin | None:
        """Return the origin of a module; None if it has none."""
        if self.entry(number).origin_at < 0:
            return None
        return _index.read_origin(
            self._page_of(number).data, self.entry(number), number, self._subject
        )

    def find(self, name: str) -> list[int]:
        """Return the numbers of the candidates that have a function, in their order. It reads the
        page of the name alone.
        """
        page = self._page_with(name)
        own = self._owners(self._load(page)).get(name, ())
        count = len(own)
        numbers = {}
        for number in own:
            numbers[self.entry(number).rank] = number
        for number, claim in page.others(name):
            self._agree(number < self.count and self._page_of(number) is not page)
            known, names = self._claims.setdefault(number, (claim, set()))
            self._agree(known == claim)
            names.add(name)
            if self._page_of(number).entries:
                self.entry(number)
            numbers[claim[0]] = number
            count += 1
        self._agree(len(numbers) == count)
        return [number for _, number in sorted(numbers.items())]

    def claim(self, number: int) -> Claim | None:
        """Return what a page of names has said of a candidate; None if its own page was read, or if
        no look-up has found it.
        """
        if number not in self._claims or self._page_of(number).entries:
            return None
        return self._claims[number][0]

    def calls(self, name: str) -> object:
        """Return what the page of a function says of its calls; None if it says nothing."""
        calls = self._load(self._page_with(name)).calls
        if not isinstance(calls, dict):
            return None
        return calls.get(name)

    def names(self) -> list[str]:
        """Return the names of the candidates' functions, in the order of the candidates. The pages
        are not compared with each other.
        """
        self._read_pages(self.pages)
        rows = []
        for page in self.pages:
            rows += self._rows(page)
        rows.sort(key=lambda row: row[0])
        return list(dict.fromkeys([name for _, names in rows for name in names]))

    def check_names(self) -> None:
        """Compare the pages with each other if `names` has read them: it may have a name that
        `find` does not find.
        """
        if all(page.data for page in self.pages):
            self.entries()

    def entries(self) -> list[Entry]:
        """Return all records. The first call reads and checks the whole index."""
        return self._once.get("entries", self._read_all)

    @property
    def has_one_root(self) -> bool:
        """Whether there is one root."""
        if self._roots is None:
            return self.candidates == 1
        return len(self._roots) == 1

    def roots(self) -> Sequence[int]:
        """Return the numbers of the roots. It reads the whole index."""
        self.entries()
        assert self._roots is not None
        return self._roots

    # -- attachments and sections

    def attached(self, function: str) -> list[StoredAttachment]:
        """Return the attachments of a function. It reads the page of the name alone, and none of
        their bytes.
        """
        page = self._load(self._page_with(function))
        return [
            self._stored(entry) for (name, _), entry in page.attached.items() if name == function
        ]

    def attachments(self) -> list[StoredAttachment]:
        """Return all attachments of the file. It reads all pages."""
        self._read_pages(self.pages)
        parts = []
        for page in self.pages:
            parts += [self._stored(entry) for entry in self._load(page).attached.values()]
        return parts

    def tuning_records(self, function: str | None = None) -> tuple[TuningRecord, ...]:
        """Return the tuning records of the file, or those of one function. The first call reads
        them. One that is invalid is skipped, with a warning.
        """
        if function is None:
            return self._records_in(self.attachments())
        return self._once.get(
            ("tuning", function), lambda: self._records_in(self.attached(function))
        )

    def section(self, name: str) -> memoryview:
        """Return the bytes of a section, after a check of their digest."""
        place = self.sections[name]
        data = self.read([place])[0]
        if sha256_of(data) != place[2]:
            raise FormatError(
                f"{self.place} is damaged: the SHA-256 of its section {quote_name(name)} is not the one in its head. Get the file again"
            )
        return data

    def check_rest(self) -> None:
        """Raise FormatError if sources, an attachment or a section are damaged, or if bytes that
        are part of nothing are not zero.
        """
        places: list[Place] = []
        for entry in self.entries():
            if entry.size:
                places.append(entry.location)
            if entry.role == SOURCES:
                self._check_sources(entry)
            elif entry.size and entry.features:
                self.read([entry.location])  # nothing else reads it, and what is beside it
        for each in self.attachments():
            each.verified()
            places.append(each.entry.location)
        for name, place in self.sections.items():
            self.section(name)
            places.append(place)
        end = self.end
        for start, size, _ in sorted(places):
            self._check_gap(end, start)
            end = start + size

    # -- inside

    def _check_gap(self, start: int, stop: int) -> None:
        """Check that bytes are zero. Those up to the next multiples of 64 were checked with what is
        before and behind.
        """
        start = aligned(start)
        stop -= stop % ALIGN
        while start < stop:
            zeros = bytes(min(stop - start, _index.MAX_ALIGN))
            data = self.read([(start, len(zeros), sha256_of(zeros))])[0]
            if data != zeros:
                raise FormatError(not_zero(self.place))
            start += len(zeros)

    def _check_sources(self, entry: Entry) -> None:
        from devmod._formats.parts import StoredSources

        subject = f"{self.place}: sources of modules"
        StoredSources(lambda *_: entry, 0, self.read, subject, "").verified()

    def _stored(self, entry: Entry) -> StoredAttachment:
        from devmod._formats.parts import StoredAttachment

        subject = (
            f"{self.place}: the attachment {quote_name(entry.tag)} of {quote_name(entry.function)}"
        )
        return StoredAttachment(lambda *_: entry, 0, self.read, subject, "")

    def _records_in(self, attachments: Sequence[StoredAttachment]) -> tuple[TuningRecord, ...]:
        """Return the tuning records among attachments."""
        tuning = [each for each in attachments if each.entry.tag == _index.TUNING]
        if not tuning:
            return ()
        # few files have tuning records, and opening one should cost little
        from devmod._formats.parts import read_together
        from devmod._formats.tuning import read_attachment

        read_together(tuning)
        records: list[TuningRecord] = []
        for each in tuning:
            records += read_attachment(each)
        return tuple(records)

    def _read_head(self, head: memoryview) -> Fields:
        reader = Reader(bytes(head), self._subject)
        fields = reader.read_fields(_HEAD_FIELDS)
        reader.finish()
        for key in ("candidates", "pages"):
            if key not in fields:
                raise FormatError(f"{self._subject} has no {key}")
        return fields

    def _check_roots(self) -> None:
        roots = self._roots
        if roots == () or (roots is None and not self.candidates):
            raise FormatError(f"{self._subject} has no root")
        if roots is not None and len(set(roots)) != len(roots):
            raise FormatError(f"{self._subject} names a root twice")

    @property
    def _subject(self) -> str:
        return f"the index of {self.place}"

    def _agree(self, condition: bool) -> None:
        if not condition:
            raise FormatError(
                f"{self._subject}: two parts of it describe a candidate in different ways"
            )

    def _compare(self, number: int, entry: Entry) -> None:
        """Compare a candidate with what pages of names have said of it."""
        claim, names = self._claims[number]
        self._agree(claim == _claim_of(entry) and names <= {*entry.functions})

    def _page_of(self, number: int) -> Page:
        return self.pages[bisect_right(self._firsts, number) - 1]

    def _page_with(self, name: str) -> Page:
        """Return the page that has a name, if one has it; the last page of a file without names."""
        at = bisect_right(self._names, name.encode("utf-8", "surrogatepass"))
        return self.pages[at - 1]

    def _has_name(self, page: Page, name: str) -> bool:
        """Return whether a page is that of a name."""
        return page.name is not None and self._page_with(name) is page

    def _owners(self, page: Page) -> dict[str, list[int]]:
        if not page.owners:
            owners: dict[str, list[int]] = {}
            for number, entry in enumerate(self._load(page).entries, page.first):
                if entry.rank is not None:
                    for name in dict.fromkeys(entry.functions):
                        owners.setdefault(name, []).append(number)
            page.owners = owners
        return page.owners

    def _rows(self, page: Page) -> list[tuple[int, Sequence[str]]]:
        """Return the rank and the names of each candidate of a page."""
        if not page.entries and page.size <= _SMALL:
            rows = _rows_of(page.data)
            if rows is not None:
                return rows
        rows = []
        for entry in self._load(page).entries:
            if entry.rank is not None:
                rows.append((entry.rank, entry.functions))
        return rows

    def _read_pages(self, pages: Sequence[Page]) -> None:
        """Read those of some pages in a row that were not read. From a server, they are one
        request.
        """
        missing = [number for number, page in enumerate(pages) if not page.data]
        if missing:
            pages = pages[missing[0] : missing[-1] + 1]
            parts = self.read([(page.at, page.size, page.digest) for page in pages])
            for page, part in zip(pages, parts, strict=True):
                self._check(page, part)

    def _check(self, page: Page, part: memoryview) -> None:
        """Keep the bytes of a page, after a look at their digest."""
        data = bytes(part)  # a mapped file may change
        if sha256_of(data) != page.digest:
            raise FormatError(
                f"{self.place} is damaged: the SHA-256 of a page of its index is not the one in its head. Get the file again"
            )
        page.data = data

    def _load(self, page: Page) -> Page:
        if page.entries:  # it is complete
            return page
        return self._once.get(page.at, lambda: self._decode(page))

    def _decode(self, page: Page) -> Page:
        self._read_pages([page])
        reader = Reader(page.data, self._subject)

        fields = reader.read_fields(_PAGE_FIELDS | _fields_of_records(page.first))
        reader.finish()
        entries = []
        for key in _index.ROLES:
            entries += fields.get(key, ())
        if len(entries) != page.count:
            raise FormatError(
                f"{self._subject}: a page has {len(entries)} records, and the head says {page.count}"
            )
        page.attached = fields.get("attached", {})
        self._place_entries(page, [*entries, *page.attached.values()])
        page.names = fields.get("names", {})
        page.variants = fields.get("variants", ())
        page.calls = fields.get("calls")
        if len(self.pages) > 1 or page.name is None:
            self._check_place(page, entries)
        count = len(page.variants)
        for numbers in page.names.values():
            if len(numbers) % 3 or max(numbers[2::3], default=0) >= count:
                raise FormatError(
                    f"{self._subject}: the names of a page have another number of integers than "
                    "three for each candidate, or a position beyond its variants"
                )
        page.entries = entries
        return page

    def _place_entries(self, page: Page, entries: Sequence[Entry]) -> None:
        """Compute the offsets of the bytes of records, and check that they end where the head
        says.
        """
        end = page.blobs
        for number, entry in enumerate(entries, page.first):
            if entry.offset is not None:
                _index.check_blob(entry, number, self.place, self._unpacking)
                place = aligned(end) + entry.shift
                entry.offset = self.start + place
                if entry.size:
                    end = place + entry.size
        if end != page.end:
            raise FormatError(
                f"{self._subject}: the records of a page have {count_text(end - page.blobs, 'byte')}, "
                f"and the head says {page.end - page.blobs}"
            )

    def _check_place(self, page: Page, entries: Sequence[Entry]) -> None:
        """Check that a page has one of the names of each of its candidates, and its other names."""
        for name in (*page.names, *[function for function, _ in page.attached]):
            self._agree(self._has_name(page, name))
        for entry in entries:
            if entry.rank is not None and entry.functions:
                self._agree(any(self._has_name(page, name) for name in entry.functions))

    def _read_all(self) -> list[Entry]:
        self._read_pages(self.pages)
        entries = []
        for page in self.pages:
            entries += self._load(page).entries
        self._check_trees(entries)
        sources = set()
        parts: set[int] = set()
        for entry in entries:
            if entry.sources is not None:
                sources.add(entry.sources)
            parts.update(entry.parts)
        self._check_used(entries, SOURCES, sources)
        self._check_used(entries, PART, parts)
        if len(self.pages) > 1 or self.pages[0].names:
            self._check_names(entries)
        return entries

    def _check_trees(self, entries: Sequence[Entry]) -> None:
        """Check the trees below the roots, the ranks of the candidates, and that each module is one
        or is imported.
        """
        modules = bare = 0
        for entry in entries:
            if entry.kind:
                modules += 1
                bare += entry.offset is None
        _index.check_nodes(bare, modules, self.place)

        order = []
        for number, entry in enumerate(entries):
            if entry.rank is not None:
                order.append((entry.rank, number))
        order.sort()
        candidates = [number for _, number in order]
        if self._roots is None:
            self._roots = candidates
        for number in self._roots:
            check_tree(number, lambda each: self.entry(each).imports, self._heights, self.place)

        def imports_of(number: int) -> Sequence[int] | None:
            entry = entries[number]
            if entry.kind == _index.BUNDLE:
                return entry.imports
            return None

        ranks = [rank for rank, _ in order]
        self._agree(len(ranks) == self.candidates and ranks == [*range(len(ranks))])
        self._agree(_index.candidates_of(self._roots, imports_of) == candidates)
        for number, entry in enumerate(entries):
            if entry.kind and number not in self._heights:
                raise FormatError(
                    f"{self._subject}: module {number} is neither a candidate nor imported"
                )

    def _check_used(self, entries: Sequence[Entry], role: str, used: set[int]) -> None:
        """Check that modules name records of a role, and each of them."""
        found = {number for number, entry in enumerate(entries) if entry.role == role}
        for number in sorted(used | found):
            self.entry(number, role)
            if number not in used:
                raise FormatError(f"{self._subject}: no module has the {role} {number}")

    def _check_names(self, entries: Sequence[Entry]) -> None:
        """Check that pages say of candidates of other pages what these have."""
        #: By name the numbers of the candidates in pages of other names, in their order.
        expected: dict[str, list[int]] = {}
        for page in self.pages:
            for name, own in self._owners(page).items():
                if not self._has_name(page, name):
                    expected.setdefault(name, []).extend(own)
        for page in self.pages:
            for name, numbers in page.names.items():
                self._agree(sorted(numbers[::3]) == expected.pop(name, None))
                for number, claim in page.others(name):
                    self._agree(claim == _claim_of(entries[number]))
        self._agree(not expected)


def _rows_of(data: bytes) -> list[tuple[int, Sequence[str]]] | None:
    """Return the rows of a page by msgpack's own code; None if the strict reader must read it."""
    from msgpack import unpackb  # type: ignore[import-untyped]

    rows = []
    try:
        for each in unpackb(data).get("modules", ()):
            if "rank" in each and "functions" in each:
                rows.append((each["rank"], each["functions"]))
        "".join([name for _, names in rows for name in names])
        sum([rank for rank, _ in rows])
    except (ValueError, TypeError, AttributeError, KeyError):  # the strict reader raises the error
        return None
    return rows


def _checked(read: Read, place: str, pages_end: int, size: int) -> ReadParts:
    """Return a function that reads parts of a file of a size.

    What is between two parts that do not follow each other must be zero: the bytes behind the parts
    up to the next multiple of 64, and those between a multiple of 64 and the first part.
    """

    def read_parts(places: Sequence[Place]) -> Sequence[memoryview]:
        at = places[0][0]
        end = places[-1][0] + places[-1][1]
        following = end
        if end >= pages_end:  # a page follows the page before
            following = max(min(aligned(end), size), end)
        starts = [start for start, _, _ in places[1:]]
        parts = []
        for (start, length, digest), after in zip(places, [*starts, following], strict=True):
            parts.append((length, digest, after - start - length))

        lead = 0
        if end > at >= pages_end:
            lead = at % ALIGN
        if lead:  # a part by its digest, so that a source still takes the others from a cache
            parts.insert(0, (lead, sha256_of(bytes(lead)), 0))
        results = read(at - lead, parts)
        zeros = [data[length:] for data, (length, _, _) in zip(results, parts, strict=True)]
        if lead:
            zeros.append(results[0])
            results = results[1:]
        if any(map(any, zeros)):
            raise FormatError(not_zero(place))
        return [data[:length] for data, (_, length, _) in zip(results, places, strict=True)]

    return read_parts


def not_zero(place: str) -> str:
    """Return the message for bytes between the parts of a file that are not zero."""
    return (
        f"{place} is damaged: the bytes between two of its parts are not zero. Get the file again"
    )


def data_parts(data: memoryview, *, copied: bool = False) -> Read:
    """Return the function that reads parts of a file in memory."""

    def read(at: int, parts: Parts) -> list[memoryview]:
        results = []
        for size, _, padding in parts:
            end = at + size + padding
            part = data[at:end]
            if copied:
                part = memoryview(bytes(part))
            results.append(part)
            at = end
        return results

    return read


def size_of(parts: Parts) -> int:
    """Return the size of parts together, with the bytes behind them."""
    return sum([size + padding for size, _, padding in parts])


def _claim_of(entry: Entry) -> Claim:
    return entry.rank, entry.kind, entry.fmt, entry.variant


def _read_names(reader: Reader) -> dict[str, tuple[int, ...]]:
    names: dict[str, tuple[int, ...]] = {}
    for _ in range(reader.read_array()):
        start = reader.at
        if reader.read_array() != 2:
            raise reader.error("expected an array of a name and numbers", start)
        name = reader.read_key(names)
        names[name] = _index.read_numbers(reader)
    return names


def _read_variants(reader: Reader) -> list[Names]:
    variants: list[Names] = []
    for _ in range(reader.read_array()):
        start = reader.at
        if reader.read_array() != 3:
            raise reader.error("expected an array of a kind, a format and a variant", start)
        variants.append((reader.read_str(), reader.read_str(), reader.read_str()))
    return variants


# Where to change: a section of a file, which has a name and bytes of any kind
#   here: no name is known yet, and `core/src/devmod/_files/carried.py` (`kept_head`) keeps those of
#     newer files; `core/src/devmod/_formats/index.py` has the layout
#   also: `docs/formats.md`; the other readers: `compilers/readers/c/devmod_reader.c`,
#     `extras/browser/js/src/head.js` (`readSections`), `tests/spec_reader.py`
#     (`read_sections`)
#   tests: `tests/test_read_places.py`, `tests/test_readers.py`
def _read_sections(reader: Reader) -> dict[str, tuple[int, bytes]]:
    """Read the names of the sections behind the records, with their sizes and digests."""
    sections: dict[str, tuple[int, bytes]] = {}
    for _ in range(reader.read_array()):
        start = reader.at
        if reader.read_array() != 3:
            raise reader.error("expected an array of a name, a size and a SHA-256", start)
        name = reader.read_key(sections)
        size = _index.read_size(reader)
        digest = bytes(reader.read_bin())
        if len(digest) != 32:
            raise reader.error(f"a SHA-256 of {count_text(len(digest), 'byte')}", start)
        sections[name] = (size, digest)
    return sections


def _read_align(reader: Reader) -> int:
    start = reader.at
    align = reader.read_int(ALIGN, _index.MAX_ALIGN)
    if align & (align - 1):
        raise reader.error(f"{align} is no power of two", start)
    return align


def _read_pages(reader: Reader) -> list[Page]:
    """Read what the head says of the pages. Their places are from the end of the head on."""
    pages = []
    first = at = end = 0
    name: bytes | None = b""
    for number in range(reader.read_array()):
        reader.within = f"pages, {number}"
        reader.field = ""
        start = reader.at
        items = reader.read_array()
        count = read_number(reader)
        size = reader.read_int(1, _index.MAX_INDEX)
        length = _index.read_size(reader)
        digest = bytes(reader.read_bin())
        if items == 6 and name is not None:
            name = _read_first_name(reader, name, number, start)
        elif items == 4:
            name = None
        else:
            raise reader.error(
                "expected an array of 4, or of 6 for a page with names, and those with names first",
                start,
            )
        if len(digest) != 32 or count > size:
            raise reader.error(
                f"a SHA-256 of {count_text(len(digest), 'byte')}, or {count} records in {count_text(size, 'byte')}",
                start,
            )
        blobs = end
        if length:
            blobs = aligned(end)
        end = blobs + length
        pages.append(Page(first, count, at, size, blobs, end, digest, name))
        first += count
        at += size
    reader.within = ""
    if not pages:
        raise reader.error("expected at least one page")
    return pages


def _read_first_name(reader: Reader, before: bytes, number: int, start: int) -> bytes:
    """Read the name from which on a page has the names. `before` is that of the page before."""
    kept = reader.read_int(0, len(before))
    name = before[:kept] + bytes(reader.read_bin())
    is_valid = name > before
    if not number:
        is_valid = not name
    if not is_valid:
        raise reader.error(
            "its first name is not behind that of the page before, or is not empty for the first page",
            start,
        )
    return name


#: The keys of the head, with the reader of each.
_HEAD_KEYS: dict[str, Callable[[Reader], Any]] = {
    "candidates": read_number,
    "roots": _index.read_numbers,
    "align": _read_align,
    "pages": _read_pages,
    "sections": _read_sections,
}
_HEAD_FIELDS = fields_of(_HEAD_KEYS)
#: The keys of a page, without those of `_index.ROLES`.
_PAGE_FIELDS = fields_of(
    {
        "attached": _index.read_attached,
        "names": _read_names,
        "variants": _read_variants,
        "calls": Reader.read_value,
    }
)


def _fields_of_records(first: int) -> dict[bytes, tuple[str, Callable[[Reader], Any]]]:
    """Return the fields of a page whose first record has a number."""

    def read(reader: Reader) -> list[Entry]:
        return _index.read_records(reader, first)

    return {packed: (key, read) for packed, (key, _) in _PACKED_ROLES}
