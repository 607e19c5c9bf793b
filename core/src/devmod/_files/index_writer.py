"""Write the index of a bundle: which page has which records and names, and the bytes of its pages
and of its head. The comment above the reader in `devmod._formats.index` has the layout.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import accumulate

from devmod._formats.index import ALIGN, aligned
from devmod._formats.wire import array_header, map_header, packer
from devmod._util.digest import sha256_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from devmod._files.order import Order
    from devmod._values.code import Binary

    #: The bytes of a record in parts, or a function that returns them: those that must be read or
    #: decompressed are not kept.
    Parts = Sequence[Binary] | Callable[[], Sequence[Binary]]
    #: A record as the file has it, the size of its bytes, these, and how many bytes behind a
    #: multiple of 64 they begin.
    Record = tuple[bytes, int, Parts, int]
    #: Returns a value as msgpack has it; the second argument is its name in messages.
    Pack = Callable[[object, str], bytes]

#: The size of a page, unless the records of one name take more.
PAGE_SIZE = 32 << 10
#: The bytes that a page has for each candidate of another page by a name: three integers.
_CLAIM_SIZE = 8
_SUBJECT = "the index of a bundle"


class PlannedPage:
    """One page: the numbers of its records, from `first` to before `stop`, and its names.

    `further` has for each name the numbers of the candidates whose records are in the page of
    another name, or None. `name` is the text from which on the page has the names; None: it has no
    names.
    """

    def __init__(
        self,
        first: int,
        names: Sequence[str],
        further: Sequence[Sequence[int] | None],
        name: bytes | None,
    ) -> None:
        self.first = first
        self.stop = first
        self.names = names
        self.further = further
        self.name = name
        #: The numbers of the attachments of its names, and of its records and these.
        self.attached: list[int] = []
        self.numbers: list[int] = []
        #: The keys `names`, `variants` and `calls` as the file has them.
        self.keys: dict[str, bytes] = {}


class IndexWriter:
    """The index of a file that is saved. No length depends on digests, of which some are known
    last.

    Parameters
    ----------
    order
        The modules.
    records
        The records. Those of modules are followed by those of sources, these by those of parts, and
        these by attachments. The caller may replace one before `pack`.
    first_part
        The number of the first part.
    attached
        The numbers of the attachments of each function that has some, from the first attachment on.
    claims
        The kind, the format and the variant of each module by its number.
    calls
        What the candidates of functions have in common.
    head
        The further keys of the head.
    """

    def __init__(
        self,
        order: Order,
        records: Sequence[Record],
        first_part: int,
        attached: Mapping[str, Sequence[int]],
        claims: Sequence[tuple[str, str, str]],
        calls: Mapping[str, object],
        head: Mapping[str, object],
    ) -> None:
        self._head = head
        self._records = records
        self._first_source = len(order.modules)
        self._first_part = first_part
        self._attached = attached
        self._count = len(records) - sum(map(len, attached.values()))
        self._candidates = [order.numbers[place] for place in order.ranks]
        self._roots = [order.numbers[place] for place in order.tops]
        self._claims = claims
        self._ranks = [order.ranks[place] for place in order.named]
        self._pack = packer()
        sizes = [len(each[0]) for each in records]
        if sum(sizes) <= PAGE_SIZE:
            self._pages = [PlannedPage(0, sorted({*calls, *attached}), (), b"")]
        else:
            self._pages = self._split(order, sizes)
        #: The numbers of the records and the attachments in the order of their bytes.
        self.numbers: list[int] = []
        self._finish_pages(calls)

    def pack(self) -> tuple[bytes, list[bytes], int]:
        """Return the head, the pages, and the size of the bytes behind them without sections."""
        rows = []
        pages = []
        before = b""
        total = 0
        for page in self._pages:
            data = self._pack_page(page)
            pages.append(data)

            size = self._size_of(page)
            if size:
                total = aligned(total) + size
            row: list[object] = [page.stop - page.first, len(data), size, sha256_of(data)]
            if page.name is not None:
                kept = _common(before, page.name)
                row += [kept, page.name[kept:]]
                before = page.name
            rows.append(row)

        head: dict[str, object] = {"candidates": len(self._candidates)}
        if self._roots != self._candidates:
            head["roots"] = self._roots
        if "align" in self._head:
            head["align"] = self._head["align"]
        head["pages"] = rows
        return self._pack({**head, **self._head}, _SUBJECT), pages, total

    # -- the pages

    def _split(self, order: Order, sizes: Sequence[int]) -> list[PlannedPage]:
        """Return the pages with their first records and their names. `sizes` has those of the
        records.
        """
        keys = [order.keys[place] for place in order.named]
        counts = Counter(keys)
        by_name = _further_candidates(order)
        names = sorted({*counts, *by_name, *self._attached})
        further = [by_name.get(name) for name in names]

        # For each name the number of its first record, and the size that all names before it take.
        ends_of_records = [0, *accumulate(sizes)]
        starts = [0]
        ends = [0]
        for name, others in zip(names, further, strict=True):
            start = starts[-1]
            stop = start + counts.get(name, 0)
            size = ends_of_records[stop] - ends_of_records[start]
            if others is not None:
                size += len(name) + 4 + _CLAIM_SIZE * len(others)
            size += sum([sizes[number] for number in self._attached.get(name, ())])
            starts.append(stop)
            ends.append(ends[-1] + size)

        pages = []
        position = size = 0
        while position < len(names):
            stop = _end_of_page(names, ends, position)
            own = slice(position, stop)
            first_name = _between(names, position)
            pages.append(PlannedPage(starts[position], names[own], further[own], first_name))
            size = ends[stop] - ends[position]
            position = stop

        # The records without a name follow those of the last name.
        for number in range(len(keys), self._count):
            if not pages or size + sizes[number] > PAGE_SIZE:
                pages.append(PlannedPage(number, (), (), None))
                size = 0
            size += sizes[number]
        return pages

    def _finish_pages(self, calls: Mapping[str, object]) -> None:
        """Complete the pages: where they end, and what they say of their names."""
        stop = self._count
        for page in reversed(self._pages):
            page.stop = stop
            stop = page.first
        for page in self._pages:
            if self._attached:
                for name in page.names:
                    page.attached += self._attached.get(name, ())
            page.numbers = [*range(page.first, page.stop), *page.attached]
            self.numbers += page.numbers
            self._add_others(page)
            if calls:
                own = {name: calls[name] for name in page.names if name in calls}
                if own:
                    page.keys["calls"] = self._pack(own, _SUBJECT)

    def _add_others(self, page: PlannedPage) -> None:
        """Add the candidates of other pages that have a name of a page."""
        others = []
        variants: dict[tuple[str, str, str], int] = {}
        for name, further in zip(page.names, page.further, strict=False):
            if further is None:
                continue
            numbers: list[int] = []
            for number in further:
                if not page.first <= number < page.stop:
                    variant = variants.setdefault(self._claims[number], len(variants))
                    numbers += (number, self._ranks[number], variant)
            if numbers:
                others.append((name, numbers))
        if others:
            page.keys["names"] = self._pack(others, _SUBJECT)
            page.keys["variants"] = self._pack(list(variants), _SUBJECT)

    # -- their bytes

    def _pack_page(self, page: PlannedPage) -> bytes:
        modules = max(page.first, min(page.stop, self._first_source))
        sources = max(page.first, min(page.stop, self._first_part))
        items: list[bytes] = []
        for key, records in (
            ("modules", self._records[page.first : modules]),
            ("sources", self._records[modules:sources]),
            ("parts", self._records[sources : page.stop]),
            ("attached", [self._records[number] for number in page.attached]),
        ):
            if records:
                array = [array_header(len(records)), *[each[0] for each in records]]
                items += (self._pack(key, _SUBJECT), b"".join(array))
        for key, value in page.keys.items():
            items += (self._pack(key, _SUBJECT), value)
        return map_header(len(items) // 2) + b"".join(items)

    def _size_of(self, page: PlannedPage) -> int:
        """Return the size of the bytes of a page's records."""
        end = 0
        for number in page.numbers:
            _, size, _, shift = self._records[number]
            if size:
                end += -end % ALIGN + shift + size
        return end


def _further_candidates(order: Order) -> dict[str, list[int]]:
    """Return the numbers of the candidates that have a name, by names that are not their keys."""
    further: dict[str, list[int]] = {}
    for number, place in enumerate(order.named):
        names = order.names[place]
        if len(names) > 1:
            for name in {*names} - {order.keys[place]}:
                further.setdefault(name, []).append(number)
    return further


def _end_of_page(names: Sequence[str], ends: Sequence[int], position: int) -> int:
    """Return the position behind the last name of the page that begins with a name."""
    stop = max(position + 1, bisect_right(ends, ends[position] + PAGE_SIZE) - 1)
    if stop == len(names):
        return stop
    # The shortest text between the names of two pages keeps the head small.
    choice = range(stop - (stop - position) // 8, stop + 1)
    return min(choice, key=lambda each: len(_between(names, each)))


def _between(names: Sequence[str], position: int) -> bytes:
    """Return the shortest text behind the name before a position, and not behind the name there."""
    if not position:
        return b""
    name = names[position].encode()
    return name[: _common(names[position - 1].encode(), name) + 1]


def _common(one: bytes, other: bytes) -> int:
    """Return the number of bytes with which both begin."""
    size = min(len(one), len(other))
    different = int.from_bytes(one[:size], "big") ^ int.from_bytes(other[:size], "big")
    return size - (different.bit_length() + 7) // 8
