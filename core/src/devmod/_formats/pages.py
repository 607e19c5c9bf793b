"""The index of an open ``.devmod`` file. Its head names its pages, which are read when they are
needed (R50).

The pages have the candidates in the order of their first names. So the candidates that have a
function are found by its page, and by those pages whose candidates have it as a further name.
"""

from __future__ import annotations

from bisect import bisect_right

from devmod._formats import index as _index
from devmod._formats.index import Entry, aligned, check_tree, fields_of, read_number
from devmod._formats.msgpack import Reader
from devmod._util.digest import sha256_of
from devmod._util.once import Once
from devmod.errors import FormatError

#: The C code of msgpack decodes pages of at most this size. It takes up to 70 bytes of memory for a
#: byte of the file.
_SMALL = 1 << 16

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod._values.origin import Origin

    #: The size of each part, and its SHA-256, by which a source may take it from a cache. They
    #: follow each other.
    Parts = Sequence[tuple[int, bytes | None]]
    #: Return the parts at an offset of the file. The last one is followed by a number of further
    #: bytes, unless it is from a cache.
    Read = Callable[[int, Parts, int], Sequence[memoryview]]
    #: Return the parts at an offset of the file, after a check of the bytes behind them.
    ReadParts = Callable[[int, Parts], Sequence[memoryview]]


class Page:
    """One page: what the head says of it, and what it has."""

    __slots__ = (
        "at",
        "blobs",
        "calls",
        "count",
        "data",
        "digest",
        "end",
        "entries",
        "first",
        "name",
        "names",
        "owners",
        "size",
    )

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
        self.first, self.count = first, count
        #: Its place in the file.
        self.at, self.size, self.digest = at, size, digest
        #: The place of the bytes of its records, from the start of the first record of the file.
        self.blobs, self.end = blobs, end
        #: The name from which on it has the names; None: it has no names.
        self.name = name
        self.data = b""
        self.entries: list[Entry] = []
        #: The numbers of the candidates of other pages, by name.
        self.names: dict[str, tuple[int, ...]] = {}
        self.calls: Any = None
        #: The numbers of its candidates by the names of their functions, which `Index.find` fills.
        self.owners: dict[str, list[int]] = {}


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
        reader = Reader(bytes(head), f"the index of {place}")
        fields = reader.read_fields(
            fields_of(
                {"candidates": read_number, "roots": _index.read_numbers, "pages": _read_pages}
            )
        )
        reader.finish()
        for key in ("candidates", "pages"):
            if key not in fields:
                raise FormatError(f"the index of {place} has no {key}")
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
        self.start = aligned(self.end)
        if 0 <= size < self.start:
            raise FormatError(
                f"{place} is cut short: {size} bytes, and its index alone takes {self.start}"
            )
        total = self.start + last.end
        #: Reads pages and records.
        self.read = _checked(read, place, self.end, total)
        if 0 <= size != total:
            problem = (
                f"is cut short: {size} bytes"
                if size < total
                else f"has {size - total} bytes more than its index describes"
            )
            raise FormatError(f"{place} {problem}; expected are {total}")
        #: The numbers of the roots; None: they are the candidates.
        self._roots: tuple[int, ...] | None = fields.get("roots")
        if not (self.candidates if self._roots is None else self._roots):
            raise FormatError(f"the index of {place} has no root")
        if self._roots is not None and len(set(self._roots)) != len(self._roots):
            raise FormatError(f"the index of {place} names a root twice")
        if len(self.pages) == 1 or self.root is not None:  # one root needs its whole tree
            self.entries()

    # -- records

    def entry(self, number: int, *, source: bool = False) -> Entry:
        """Return a module's record, or that of sources. FormatError if there is none."""
        if number < self.count:
            page = self._load(self._page_of(number))
            entry = page.entries[number - page.first]
            if bool(entry.kind) is not source:
                return entry
        raise FormatError(
            f"{self._subject} has no {'sources' if source else 'module'} of the number {number}"
        )

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

    def origin(self, number: int) -> Origin:
        """Return the origin of a module that has one."""
        return _index.read_origin(
            self._page_of(number).data, self.entry(number), number, self._subject
        )

    def find(self, name: str) -> list[int]:
        """Return the numbers of the candidates that have a function, in their order. It reads the
        page of the name and theirs.
        """
        page = self._page_with(name)
        if page is None:
            return []
        others = self._load(page).names.get(name, ())
        places = sorted({bisect_right(self._firsts, number) - 1 for number in others})
        if places and places[-1] - places[0] < len(places):
            self._read_pages(self.pages[places[0] : places[-1] + 1])
        pages = [self.pages[place] for place in places]
        self._agree(
            {*others}
            <= {
                number
                for each in pages
                if each is not page
                for number in self._owners(each).get(name, ())
            }
        )
        numbers = [*self._owners(page).get(name, ()), *others]
        ranks = {self.entry(number).rank: number for number in numbers}
        self._agree(len(ranks) == len(numbers))
        return [number for _, number in sorted(ranks.items())]

    def calls(self, name: str) -> object:
        """Return what the page of a function says of its calls; None if it says nothing."""
        page = self._page_with(name)
        calls = None if page is None else self._load(page).calls
        return calls.get(name) if isinstance(calls, dict) else None

    def names(self) -> list[str]:
        """Return the names of the candidates' functions, in the order of the candidates. The pages
        are not compared with each other.
        """
        self._read_pages(self.pages)
        rows = sorted(
            [row for page in self.pages for row in self._rows(page)], key=lambda row: row[0]
        )
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
    def root(self) -> int | None:
        """The number of the only root; None if there are several."""
        if self._roots is None:
            return 0 if self.candidates == 1 else None
        return self._roots[0] if len(self._roots) == 1 else None

    def roots(self) -> Sequence[int]:
        """Return the numbers of the roots. It reads the whole index."""
        ranked = self._in_order(self.entries())
        return ranked if self._roots is None else self._roots

    # -- inside

    @property
    def _subject(self) -> str:
        return f"the index of {self.place}"

    def _agree(self, condition: bool) -> None:
        if not condition:
            raise FormatError(
                f"{self._subject}: two parts of it describe a candidate in different ways"
            )

    def _page_of(self, number: int) -> Page:
        return self.pages[bisect_right(self._firsts, number) - 1]

    def _page_with(self, name: str) -> Page | None:
        """Return the page that has a name, if one has it."""
        at = bisect_right(self._names, name.encode("utf-8", "surrogatepass"))
        return self.pages[at - 1] if at else None

    def _owners(self, page: Page) -> dict[str, list[int]]:
        if not page.owners:
            owners: dict[str, list[int]] = {}
            for number, entry in enumerate(self._load(page).entries, page.first):
                for name in dict.fromkeys(entry.functions if entry.rank is not None else ()):
                    owners.setdefault(name, []).append(number)
            page.owners = owners
        return page.owners

    def _rows(self, page: Page) -> list[tuple[int, Sequence[str]]]:
        """Return the rank and the names of each candidate of a page, which msgpack's own code
        decodes if it is small.
        """
        from msgpack import unpackb  # type: ignore[import-untyped]

        if not page.entries and page.size <= _SMALL:
            try:
                found = unpackb(page.data).get("modules", ())
                rows = [
                    (each["rank"], each["functions"])
                    for each in found
                    if "rank" in each and "functions" in each
                ]
                "".join([name for _, names in rows for name in names])
                sum(rank for rank, _ in rows)
                return rows
            except (
                ValueError,
                TypeError,
                AttributeError,
                KeyError,
            ):  # the strict reader raises the error
                pass
        return [
            (entry.rank, entry.functions)
            for entry in self._load(page).entries
            if entry.rank is not None
        ]

    def _read_pages(self, pages: Sequence[Page]) -> None:
        """Read those of some pages in a row that were not read. From a server, they are one
        request.
        """
        missing = [number for number, page in enumerate(pages) if not page.data]
        if missing:
            pages = pages[missing[0] : missing[-1] + 1]
            parts = self.read(pages[0].at, [(page.size, page.digest) for page in pages])
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
        return self._once.get(page.at, lambda: self._decode(page))

    def _decode(self, page: Page) -> Page:
        if not page.data:
            self._check(page, self.read(page.at, [(page.size, page.digest)])[0])
        reader = Reader(page.data, self._subject)

        keys: dict[str, Callable[[Reader], Any]] = {
            "modules": lambda reader: _read_records(reader, _index.read_entry, page.first),
            "sources": lambda reader: _read_records(reader, _index.read_sources, page.first),
            "names": _read_names,
            "calls": Reader.read_value,
        }
        fields = reader.read_fields(fields_of(keys))
        reader.finish()
        entries: list[Entry] = [*fields.get("modules", ()), *fields.get("sources", ())]
        if len(entries) != page.count:
            raise FormatError(
                f"{self._subject}: a page has {len(entries)} records, and the head says {page.count}"
            )
        end = page.blobs
        for number, entry in enumerate(entries, page.first):
            if entry.offset is not None:
                _index.check_blob(entry, number, self.place, self._unpacking)
                entry.offset = self.start + aligned(end)
                end = aligned(end) + entry.size if entry.size else end
        if end != page.end:
            raise FormatError(
                f"{self._subject}: the records of a page have {end - page.blobs} bytes, and the head says {page.end - page.blobs}"
            )
        page.names, page.calls = fields.get("names", {}), fields.get("calls")
        if (
            len(self.pages) > 1 or page.name is None
        ):  # the first name of a candidate is in its own page
            names = [
                min(entry.functions)
                for entry in entries
                if entry.rank is not None and entry.functions
            ]
            self._agree(all(self._page_with(name) is page for name in (*names, *page.names)))
        page.entries = entries
        return page

    def _read_all(self) -> list[Entry]:
        self._read_pages(self.pages)
        entries = [entry for page in self.pages for entry in self._load(page).entries]
        modules = [entry for entry in entries if entry.kind]
        _index.check_nodes(sum(entry.offset is None for entry in modules), len(modules), self.place)
        candidates = self._in_order(entries)
        ranks = [entries[number].rank for number in candidates]
        roots = candidates if self._roots is None else self._roots
        for number in roots:
            check_tree(number, lambda each: self.entry(each).imports, self._heights, self.place)
        walked = _index.candidates_of(
            roots,
            lambda each: entries[each].imports if entries[each].kind == _index.BUNDLE else None,
        )
        self._agree(
            len(ranks) == self.candidates and ranks == [*range(len(ranks))] and walked == candidates
        )
        for number, entry in enumerate(entries):
            if entry.kind and number not in self._heights:
                raise FormatError(
                    f"{self._subject}: module {number} is neither a candidate nor imported"
                )
        used = {entry.sources for entry in entries if entry.sources is not None}
        for number in used | {number for number, entry in enumerate(entries) if not entry.kind}:
            self.entry(number, source=True)
            if number not in used:
                raise FormatError(f"{self._subject}: no module has the sources {number}")
        if len(self.pages) > 1 or self.pages[0].names:
            others: dict[str, list[int]] = {}
            for page in self.pages:
                for name, numbers in self._owners(page).items():
                    if self._page_with(name) is not page:
                        others.setdefault(name, []).extend(numbers)
            said = {
                name: sorted(numbers) for page in self.pages for name, numbers in page.names.items()
            }
            self._agree(said == {name: sorted(numbers) for name, numbers in others.items()})
        return entries

    @staticmethod
    def _in_order(entries: Sequence[Entry]) -> list[int]:
        ranks = [
            (entry.rank, number) for number, entry in enumerate(entries) if entry.rank is not None
        ]
        return [number for _, number in sorted(ranks)]


def _checked(read: Read, place: str, pages_end: int, size: int) -> ReadParts:
    """Return a function that reads parts of a file of a size.

    What is between two parts that do not follow each other must be zero.
    """

    def read_parts(at: int, parts: Parts) -> Sequence[memoryview]:
        end = at + size_of(parts)
        padding = 0
        if end >= pages_end:  # a page follows the page before
            padding = max(min(aligned(end), size) - end, 0)
        *before, last = read(at, parts, padding)
        last_size = parts[-1][0]
        if any(last[last_size:]):
            raise FormatError(
                f"{place} is damaged: the bytes between two of its parts are not zero. Get the file again"
            )
        return [*before, last[:last_size]]

    return read_parts


def data_parts(data: memoryview, *, copied: bool = False) -> Read:
    """Return the function that reads parts of a file in memory."""

    def read(at: int, parts: Parts, padding: int) -> list[memoryview]:
        sizes = [size for size, _ in parts]
        sizes[-1] += padding
        results = []
        for size in sizes:
            part = data[at : at + size]
            if copied:
                part = memoryview(bytes(part))
            results.append(part)
            at += size
        return results

    return read


def size_of(parts: Parts) -> int:
    """Return the size of parts together."""
    return sum([size for size, _ in parts])


def _read_records(reader: Reader, read: Callable[[Reader, int], Entry], first: int) -> list[Entry]:
    entries = [read(reader, first + number) for number in range(reader.read_array())]
    reader.within = ""
    return entries


def _read_names(reader: Reader) -> dict[str, tuple[int, ...]]:
    names: dict[str, tuple[int, ...]] = {}
    for _ in range(reader.read_array()):
        start = reader.at
        if reader.read_array() != 2:
            raise reader.error("expected an array of a name and numbers", start)
        name = reader.read_key(names)
        names[name] = _index.read_numbers(reader)
    return names


def _read_pages(reader: Reader) -> list[Page]:
    """Read what the head says of the pages. Their places are from the end of the head on."""
    pages: list[Page] = []
    first = at = end = 0
    name: bytes | None = b""
    for number in range(reader.read_array()):
        reader.within, reader.field, start = f"pages, {number}", "", reader.at
        items = reader.read_array()
        count, size = read_number(reader), reader.read_int(1, _index.MAX_INDEX)
        length, digest = _index.read_size(reader), bytes(reader.read_bin())
        if items == 6 and name is not None:
            before, kept = name, reader.read_int(0, len(name))
            name = before[:kept] + bytes(reader.read_bin())
            if name <= before if number else name:
                raise reader.error(
                    "its first name is not behind that of the page before, or is not empty for the first page",
                    start,
                )
        elif items == 4:
            name = None
        else:
            raise reader.error(
                "expected an array of 4, or of 6 for a page with names, and those with names first",
                start,
            )
        if len(digest) != 32 or count > size:
            raise reader.error(
                f"a SHA-256 of {len(digest)} bytes, or {count} records in {size} bytes", start
            )
        start = aligned(end) if length else end
        end = start + length
        pages.append(Page(first, count, at, size, start, end, digest, name))
        first, at = first + count, at + size
    reader.within = ""
    if not pages:
        raise reader.error("expected at least one page")
    return pages
