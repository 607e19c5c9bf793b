"""Bundles of many modules: a table in the index gives the modules that have a function, and decodes these and their imports alone.

It repeats what the modules have, so a reader may ignore it. A file whose modules have imports has it under another key, which older readers
ignore: they refuse imports under the first key.
"""

from __future__ import annotations

from _collections_abc import Mapping  # collections.abc, without the package collections
from binascii import crc32
from bisect import bisect_left
from itertools import accumulate, pairwise

from devmod._formats.index import BUNDLE, LOOKUP, MAX_BARE, TREE_LOOKUP, Entry, Unpacking, check_blob, check_version, read_entry, read_index
from devmod._formats.msgpack import Reader
from devmod._modules.bundle import BundleModule
from devmod._modules.module import LIBRARY, Module, holds_candidates
from devmod._util.once import Once
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


#: The number of modules from which a file has the table.
MIN_MODULES = 512
#: The C code of msgpack decodes modules of less than this size. It takes up to 70 bytes of memory for a byte of the file.
_SMALL = 1 << 14


# The layout: an array of three binaries of u32, little-endian: for each module the offset of its map in the index; the CRC-32 of each
# name in UTF-8 of a candidate's function, in ascending order; for each of these the number of its module, for one CRC-32 in the order of
# the candidates. Without imports each module is a candidate.
def pack_table(roots: Sequence[int], entries: Sequence[Entry], packed: Sequence[bytes], start: int) -> bytes:
    """Return the table of an index, with its key, in which the maps `packed` of the modules begin `start` bytes after the table."""
    from devmod._formats.wire import pack

    is_plain = list(roots) == list(range(len(packed))) and not any(entry.imports for entry in entries)
    key = LOOKUP if is_plain else TREE_LOOKUP
    candidates = roots if is_plain else _candidates(roots, {at: each.imports for at, each in enumerate(entries) if each.kind == BUNDLE})
    rows = [(_hash(name), place, number) for place, number in enumerate(candidates) for name in entries[number].functions]
    rows.sort()
    hashes, numbers = _column([row[0] for row in rows]), _column([row[2] for row in rows])
    # The size of the table does not depend on the offsets.
    start += len(key) + len(pack([bytes(4 * len(packed)), hashes, numbers], ""))
    offsets = accumulate(map(len, packed[:-1]), initial=start)
    return key + pack([_column([*offsets]), hashes, numbers], "")


def _candidates(roots: Iterable[int], nodes: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the numbers of `BundleModule.candidates`. `nodes` are the bundles in the file, with their imports."""
    pending, seen, results = [*roots][::-1], set[int](), list[int]()
    while pending:
        number = pending.pop()
        if number not in seen:
            seen.add(number)
            if number in nodes:
                pending.extend(reversed(nodes[number]))
            else:
                results.append(number)
    return results


def _column(numbers: Sequence[int]) -> bytes:
    from struct import pack

    return pack(f"<{len(numbers)}I", *numbers)


def _hash(name: str) -> int:
    return crc32(name.encode("utf-8", "surrogatepass"))


class IndexedBundle(BundleModule):
    """A bundle that decodes a module at its first use. `make` returns the module of an entry and its number."""

    def __init__(
        self, index: memoryview, available: int, place: str, version: int, make: Callable[[Entry, int], Module], prefer: tuple[str, ...]
    ) -> None:
        super().__init__((), prefer)
        del self.__dict__["_devmod_imports"]
        self._available, self._place, self._version, self._make = available, place, version, make
        self._made = Once()
        self._unpacking = Unpacking()
        self._numbers_at: dict[int, int] = {}  # the offset of the bytes of each module that was used
        self._numbers_of: dict[int, int] = {}  # the offset of the map of each
        self._used = self._bare = 0
        self._data = bytes(index)
        self._is_tree = self._data.startswith(TREE_LOOKUP, 1)
        reader = self._reader()
        reader.at, reader.field = 1, (TREE_LOOKUP if self._is_tree else LOOKUP)[1:].decode()
        reader.at += 1 + len(reader.field)
        columns = [reader.read_bin() for _ in range(reader.read_array())]
        if [len(each) % 4 for each in columns] != [0, 0, 0] or len(columns[1]) != len(columns[2]):
            raise reader.error("expected three binaries of 32-bit numbers")
        self._offsets, self._hashes, self._numbers = (memoryview(each).cast("I") for each in columns)

    @property
    def imports(self) -> tuple[Module, ...]:
        """The roots. The first access decodes and checks the whole index."""
        if "_devmod_imports" not in self.__dict__:
            roots, entries = self._read_index()
            self.names()
            self._require(all(map(self._may_be, entries)))
            # From the last: each module is after those that import it.
            modules = [self.module(number, entry) for number, entry in reversed([*enumerate(entries)])][::-1]
            self.__dict__["_devmod_imports"] = tuple([modules[number] for number in roots])
        return super().imports

    @property
    def _owners(self) -> Mapping[str, Module]:
        return super()._owners if "_devmod_imports" in self.__dict__ else _Owners(self)

    def _read_names(self) -> dict[str, int]:
        """Return the number of the first candidate of each function, and check the offsets and the numbers in the table.

        With others, a look-up would run a module that the tree does not list.
        """
        from msgpack import packb, unpackb  # type: ignore[import-untyped]

        reader, data, offsets = self._reader(), self._data, self._offsets.tolist()
        count = len(offsets)
        every: bytes = packb([*range(count)])
        roots: Sequence[int] = range(count)
        functions: list[Sequence[str]] = []
        nodes: dict[int, Sequence[int]] = {}
        keys: set[str] = set()
        for _ in range(reader.read_map()):
            reader.within, reader.field = "", (key := reader.read_key(keys))
            keys.add(key)
            if key == "modules":
                self._require(reader.read_array() == count and offsets[:1] == [reader.at])
                for number, (start, end) in enumerate(pairwise([*offsets, -1])):
                    try:
                        fields = unpackb(data[start:end][:_SMALL])
                        "".join(names := fields["functions"] + [])  # TypeError: no list of str
                        if fields["kind"] in (BUNDLE, LIBRARY):
                            raise ValueError
                    except (ValueError, TypeError, KeyError):  # the strict reader raises the error
                        reader.at = start
                        entry = read_entry(reader, number)
                        names = () if entry.offset is None else entry.functions  # those of a node are its candidates'
                        if entry.kind == BUNDLE:
                            nodes[number] = entry.imports
                        self._require(end in (-1, reader.at))
                    functions.append(names)
            elif key == "roots" and data.startswith(every, reader.at):
                reader.at += len(every)
            elif key == "roots":
                roots = reader.read_numbers(2**32 - 1)
                self._require(self._is_tree or tuple(roots) == tuple(range(count)))
            else:
                reader.read_value()
        self._require({"roots", "modules"} <= keys)
        candidates = _candidates(roots, nodes) if self._is_tree else range(count)
        self._require(not self._is_tree or (max(candidates, default=0) < count and {*candidates}.issuperset(self._numbers)))
        owners = dict[str, int]()
        for number in candidates:
            for name in functions[number]:
                owners.setdefault(name, number)
        return owners

    def _owners_of(self, name: str, query_imports: bool = False) -> list[Module]:
        # The table has no names of imports.
        if "_devmod_imports" not in self.__dict__ and isinstance(name, str) and not (query_imports and self._is_tree):
            modules = list(self.find(name))
            if modules:
                return modules
        return super()._owners_of(name, query_imports)

    def find(self, name: str) -> Iterator[Module]:
        """Yield the modules that have a function, by the table."""
        value = _hash(name)
        at = bisect_left(self._hashes, value)
        while at < len(self._hashes) and self._hashes[at] == value:
            module = self.module(self._numbers[at])
            if not holds_candidates(module) and name in module.function_names:
                yield module
            at += 1

    def names(self) -> dict[str, int]:
        return self._made.get("names", self._read_names)

    def module(self, number: int, entry: Entry | None = None) -> Module:
        """Return a module with its imports; `entry` is the checked one, and its imports are made.

        All threads get the same module, so its bytes count once for the limit of the file.
        """
        if entry is None and self._is_tree and number not in self._made:
            numbers = self._with_imports(number)
            if self._bare > MAX_BARE:
                self._made.get("checked", self._check_index)
            for each in sorted(numbers - {number}, reverse=True):  # imports before their importers
                self._make_module(each, None)
        return self._make_module(number, entry)

    def _make_module(self, number: int, entry: Entry | None) -> Module:
        def make() -> Module:
            known = self._entry_of(number) if entry is None else entry
            module = self._make(known, number)
            if known.imports:
                module.__dict__["_devmod_imports"] = tuple([self._make_module(each, None) for each in known.imports])
            return module

        return self._made.get(number, make)

    def _with_imports(self, number: int) -> set[int]:
        """Return the numbers of a module and of those that it imports, directly or through others, without those that are made."""
        numbers, pending = {number}, [number]
        while pending:
            importer = pending.pop()
            for each in self._entry_of(importer).imports:
                self._require(each > importer)
                if each not in numbers and each not in self._made:
                    numbers.add(each)
                    pending.append(each)
        return numbers

    def _entry_of(self, number: int) -> Entry:
        return self._made.get(("entry", number), lambda: self._checked(number)) if self._is_tree else self._checked(number)

    def _checked(self, number: int) -> Entry:
        self._require(number < len(self._offsets))
        offset = self._offsets[number]
        self._require(self._numbers_of.setdefault(offset, number) == number)
        reader = self._reader()
        reader.at = offset
        entry = read_entry(reader, number)
        self._require(self._may_be(entry))
        if entry.offset is None:
            self._bare += 1
            return entry
        check_version(self._version, [entry], False, self._place)
        check_blob(entry, number, entry.offset, self._available, self._place, self._unpacking)
        # Each module unpacks its own bytes: those in the file must not count for several.
        self._require(not entry.size or self._numbers_at.setdefault(entry.offset, number) == number)
        self._used += entry.size
        self._require(self._available < 0 or self._used <= self._available)
        return entry

    def _may_be(self, entry: Entry) -> bool:
        """Return whether the file may have an entry."""
        return entry.sources is None and (self._is_tree or (not entry.imports and entry.offset is not None))

    def _read_index(self) -> tuple[list[int], list[Entry]]:
        return read_index(memoryview(self._data), self._available, self._place, self._version)

    def _check_index(self) -> bool:
        """Check the limits of the whole file, for a look-up that reaches many modules."""
        self._read_index()
        self.names()
        return True

    def _reader(self) -> Reader:
        return Reader(self._data, f"the index of {self._place}")

    def _require(self, condition: bool) -> None:
        if not condition:
            raise FormatError(f"the index of {self._place}: its lookup table is for other modules")


class _Owners(Mapping[str, "Module"]):
    """The first module of each function. No module is decoded before it is looked up."""

    def __init__(self, bundle: IndexedBundle) -> None:
        self._bundle = bundle

    def __getitem__(self, name: str) -> Module:
        # Names of a hostile file may all have one CRC.
        module = next(self._bundle.find(name), None) if isinstance(name, str) and "names" not in self._bundle._made else None
        return self._bundle.module(self._bundle.names()[name]) if module is None else module

    def __iter__(self) -> Iterator[str]:
        return iter(self._bundle.names())

    def __len__(self) -> int:
        return len(self._bundle.names())
