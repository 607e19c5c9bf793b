"""Bundles of many modules: a table in the index gives the modules that have a function, and no other module is decoded.

Only files whose modules are all roots have it. It repeats what the modules have, so a reader may ignore it.
"""

from __future__ import annotations

from _collections_abc import Mapping  # collections.abc, without the package collections
from binascii import crc32
from bisect import bisect_left
from itertools import accumulate, pairwise

from devmod._formats.index import Unpacking, check_blob, check_version, read_entry, read_index
from devmod._formats.msgpack import Reader
from devmod._modules.bundle import BundleModule
from devmod._util.once import Once
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from devmod._formats.index import Entry
    from devmod._modules.module import Module

#: The packed key of the table, at byte 1 of an index.
KEY = b"\xa6lookup"
#: The number of modules from which a file has the table.
MIN_MODULES = 512
#: The C code of msgpack decodes modules of less than this size. It takes up to 70 bytes of memory for a byte of the file.
_SMALL = 1 << 14


# The layout: an array of three binaries of u32, little-endian: for each module the offset of its map in the index; the CRC-32 of each
# function's name in UTF-8, in ascending order; for each of these the number of its module.
def pack_table(entries: Sequence[Entry], packed: Sequence[bytes], start: int) -> bytes:
    """Return the table of an index, with its key, in which the maps `packed` of the modules begin `start` bytes after the table."""
    from devmod._formats.wire import pack

    rows = sorted([(_hash(name), number) for number, entry in enumerate(entries) for name in entry.functions])
    hashes, numbers = _column([row[0] for row in rows]), _column([row[1] for row in rows])
    # The size of the table does not depend on the offsets.
    start += len(KEY) + len(pack([bytes(4 * len(packed)), hashes, numbers], ""))
    offsets = accumulate(map(len, packed[:-1]), initial=start)
    return KEY + pack([_column([*offsets]), hashes, numbers], "")


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
        self._used = 0
        self._data = bytes(index)
        reader = self._reader()
        reader.at, reader.field = 1 + len(KEY), "lookup"
        columns = [reader.read_bin() for _ in range(reader.read_array())]
        if [len(each) % 4 for each in columns] != [0, 0, 0] or len(columns[1]) != len(columns[2]):
            raise reader.error("expected three binaries of 32-bit numbers")
        self._offsets, self._hashes, self._numbers = (memoryview(each).cast("I") for each in columns)

    @property
    def imports(self) -> tuple[Module, ...]:
        """All modules. The first access decodes and checks the whole index."""
        if "_devmod_imports" not in self.__dict__:
            _, entries = read_index(memoryview(self._data), self._available, self._place, self._version)
            self.names()
            self._require(all(map(_is_plain, entries)))
            self.__dict__["_devmod_imports"] = tuple(self.module(number, entry) for number, entry in enumerate(entries))
        return super().imports

    @property
    def _owners(self) -> Mapping[str, Module]:
        return super()._owners if "_devmod_imports" in self.__dict__ else _Owners(self)

    def _read_names(self) -> dict[str, int]:
        """Return the number of the first module of each function, and check the offsets in the table.

        With another offset, a look-up would run a module that the tree does not list.
        """
        from msgpack import packb, unpackb  # type: ignore[import-untyped]

        reader, data, offsets = self._reader(), self._data, self._offsets.tolist()
        roots: bytes = packb([*range(len(offsets))])
        owners, keys = dict[str, int](), set[str]()
        for _ in range(reader.read_map()):
            reader.within, reader.field = "", (key := reader.read_key(keys))
            keys.add(key)
            if key == "modules":
                self._require(reader.read_array() == len(offsets) and offsets[:1] == [reader.at])
                for number, (start, end) in enumerate(pairwise([*offsets, -1])):
                    try:
                        "".join(names := unpackb(data[start:end][:_SMALL])["functions"] + [])  # TypeError: no list of str
                    except (ValueError, TypeError, KeyError):  # the strict reader raises the error
                        reader.at = start
                        names = read_entry(reader, number).functions
                        self._require(end in (-1, reader.at))
                    for name in names:
                        owners.setdefault(name, number)
            elif key == "roots" and data.startswith(roots, reader.at):
                reader.at += len(roots)
            elif key == "roots":
                self._require(reader.read_numbers(2**32 - 1) == tuple(range(len(offsets))))
            else:
                reader.read_value()
        self._require({"roots", "modules"} <= keys)
        return owners

    def _owners_of(self, name: str, query_imports: bool = False) -> list[Module]:
        if "_devmod_imports" not in self.__dict__ and isinstance(name, str) and (modules := list(self.find(name))):
            return modules
        return super()._owners_of(name, query_imports)

    def find(self, name: str) -> Iterator[Module]:
        """Yield the modules that have a function, by the table."""
        value = _hash(name)
        at = bisect_left(self._hashes, value)
        while at < len(self._hashes) and self._hashes[at] == value:
            module = self.module(self._numbers[at])
            if name in module.function_names:
                yield module
            at += 1

    def names(self) -> dict[str, int]:
        return self._made.get("names", self._read_names)

    def module(self, number: int, entry: Entry | None = None) -> Module:
        """Return a module; `entry` is the checked one. All threads get the same, so its bytes count once for the limit of the file."""
        return self._made.get(number, lambda: self._make(self._checked(number) if entry is None else entry, number))

    def _checked(self, number: int) -> Entry:
        self._require(number < len(self._offsets))
        entry = self._entry(number)
        self._require(_is_plain(entry))
        check_version(self._version, [entry], False, self._place)
        check_blob(entry, number, entry.offset or 0, self._available, self._place, self._unpacking)
        # Each module unpacks its own bytes: those in the file must not count for several.
        self._require(not entry.size or self._numbers_at.setdefault(entry.offset or 0, number) == number)
        self._used += entry.size
        self._require(self._available < 0 or self._used <= self._available)
        return entry

    def _entry(self, number: int) -> Entry:
        reader = self._reader()
        reader.at = self._offsets[number]
        return read_entry(reader, number)

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


def _is_plain(entry: Entry) -> bool:
    return not entry.imports and entry.offset is not None and entry.sources is None
