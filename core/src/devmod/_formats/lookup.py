"""Bundles of many modules: a table in the index gives the modules that have a function, and no other module is decoded.

Only files whose modules are all roots have it. It repeats what the modules have, so a reader may ignore it.
"""

from __future__ import annotations

from binascii import crc32
from bisect import bisect_left

from devmod._formats.index import check_blob, read_entry, read_index
from devmod._formats.msgpack import Reader
from devmod._modules.bundle import BundleModule
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


# The layout: an array of three binaries of u32, little-endian.
#
#   0  for each module the offset of its map in the index
#   1  the CRC-32 of each function's name in UTF-8, in ascending order
#   2  for each of these the number of its module; equal names have ascending numbers
def make_table(entries: Sequence[Entry], packed: Sequence[bytes], start: int) -> list[bytes]:
    """Return the table of an index in which the maps `packed` of the modules begin at `start`."""
    offsets = []
    for each in packed:
        offsets.append(start)
        start += len(each)
    rows = sorted((_hash(name), number) for number, entry in enumerate(entries) for name in entry.functions)
    columns = (offsets, [row[0] for row in rows], [row[1] for row in rows])
    return [b"".join(value.to_bytes(4, "little") for value in column) for column in columns]


def _hash(name: str) -> int:
    return crc32(name.encode("utf-8", "surrogatepass"))


class IndexedBundle(BundleModule):
    """A bundle that decodes a module at its first use. `make` returns the module of an entry and its number."""

    def __init__(
        self, index: memoryview, available: int, place: str, version: int, make: Callable[[Entry, int], Module], prefer: tuple[str, ...]
    ) -> None:
        super().__init__((), prefer)
        del self.__dict__["_devmod_imports"]
        self._index, self._available, self._place, self._version, self._make = index, available, place, version, make
        self._made: dict[int, Module] = {}
        self._data = bytes(index)
        reader = Reader(self._data, f"the index of {place}")
        reader.at, reader.field = 1 + len(KEY), "lookup"
        count = reader.read_array()
        columns = [reader.read_bin() for _ in range(count)]
        if count != 3 or any(len(each) % 4 for each in columns) or len(columns[1]) != len(columns[2]):
            raise reader.error("expected three binaries of 32-bit numbers")
        self._offsets, self._hashes, self._numbers = (memoryview(each).cast("I") for each in columns)

    @property
    def imports(self) -> tuple[Module, ...]:
        """All modules. The first access decodes and checks the whole index."""
        modules: tuple[Module, ...] | None = self.__dict__.get("_devmod_imports")
        if modules is None:
            roots, entries = read_index(self._index, self._available, self._place, self._version)
            if roots != list(range(len(self._offsets))) or len(roots) != len(entries) or any(map(_is_unusual, entries)):
                raise FormatError(f"the index of {self._place}: its lookup table is for other modules")
            modules = tuple(self._made.setdefault(number, self._make(entry, number)) for number, entry in enumerate(entries))
            self.__dict__["_devmod_imports"] = modules
        return modules

    def _owners_of(self, name: str, query_imports: bool = False) -> list[Module]:
        if "_devmod_imports" not in self.__dict__ and isinstance(name, str):
            modules = [module for module in self._candidates_of(name) if name in module.function_names]
            if modules:
                return modules
        return super()._owners_of(name, query_imports)

    def _candidates_of(self, name: str) -> Iterator[Module]:
        value = _hash(name)
        at = bisect_left(self._hashes, value)
        while at < len(self._hashes) and self._hashes[at] == value:
            yield self._module(self._numbers[at])
            at += 1

    def _module(self, number: int) -> Module:
        module = self._made.get(number)
        if module is None:
            reader = Reader(self._data, f"the index of {self._place}")
            if number >= len(self._offsets):
                raise reader.error(f"its lookup table has a module {number}, and there are {len(self._offsets)}")
            reader.at = self._offsets[number]
            entry = read_entry(reader, number)
            if _is_unusual(entry):
                raise reader.error("its lookup table has a module with imports, or a node")
            check_blob(entry, number, entry.offset or 0, self._available, self._place)
            module = self._made.setdefault(number, self._make(entry, number))
        return module


def _is_unusual(entry: Entry) -> bool:
    return bool(entry.imports) or entry.offset is None or entry.sources is not None
