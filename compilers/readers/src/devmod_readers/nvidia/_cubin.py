"""Read the kernels of a cubin from its sections ``.nv.info.<kernel>``.

Such a section is a list of attributes. An attribute has a form u8, a number u8 and two bytes: the
value, or for form 4 the size of the value after it. The attributes that this module reads, with the
source "cuobjdump -elf of CUDA 12.4 and 13.5":

- 0x17 a parameter: index u32, ordinal u16, offset u16, and a u32 with the size in bits 18 to 31.
  Offset 0xffff marks a reference.
- 0x45 a parameter of a kernel whose parameters do not fit in 0x17: the size is in bits 0 to 15 of
  the last u32.
- 0x19 the bytes of all parameters, u16. 0x0a has them too: symbol u32, offset u16, size u16. A
  kernel without parameters has neither.
- 0x05 the greatest block, 0x10 the required block, 0x3d the required cluster, each three u32. 0x3f
  the most blocks of a cluster, u32.
- 0x3e each launch has cluster dimensions. 0x5b the grid counts clusters.

Sections of functions of the device have none of these. The symbol of a kernel has bit 4 of `other`
(CUDA's STO_CUDA_ENTRY).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from struct import Struct

from devmod.errors import FormatError, count_text
from devmod_readers.elf import ElfFile
from devmod_readers.nvidia._entry import KernelEntry, ParamPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from devmod.backend import Binary


CUDA = 190
_HEADER = 64
_OVERLAP = "its sections overlap"
_INFO = 0x70000000
_PREFIX = ".nv.info."
_SYMBOLS = 2
_NOBITS = 8
#: The shared memory of a kernel is in the section of this name.
_SHARED = b".nv.shared."
#: What the system reserves, in that section since sm_90.
_RESERVED = "reserved.0"
#: `info` and `other` of a symbol as one number, and its section.
_SYMBOL = Struct("<4xHH16x")
#: The first of both for a kernel: a function (2, in bits 0 to 3) with bit 4 of `other`.
_KERNEL = 0x1002
#: Numbers of attributes.
_PARAM = 0x17
_PARAM_V2 = 0x45
_PARAM_BYTES = 0x19
_PARAM_BANK = 0x0A
_MAX_BLOCK = 0x05
_BLOCK = 0x10
_CLUSTER = 0x3D
_MAX_CLUSTER = 0x3F
_EXPLICIT = 0x3E
_CLUSTER_GRID = 0x5B
#: The offset of a reference.
_REFERENCE = 0xFFFF
#: The head of an attribute, whose u16 is the size of its value in the form `_SIZED`.
_ATTRIBUTE = Struct("<BBH")
_SIZED = 4
#: A parameter.
_PLACE = Struct("<4xHHI")
#: The values that are read. Others are flags.
_VALUES = {
    _PARAM: _PLACE,
    _PARAM_V2: _PLACE,
    _PARAM_BANK: Struct("<6xH"),
    _PARAM_BYTES: Struct("<H"),
    _MAX_CLUSTER: Struct("<I"),
}
_VALUES |= dict.fromkeys((_MAX_BLOCK, _BLOCK, _CLUSTER), Struct("<III"))
_FLAG = Struct("")


def read_cubin(data: Binary) -> dict[str, KernelEntry]:
    """Return the kernels of a cubin by name.

    Parameters
    ----------
    data
        The cubin.

    Raises
    ------
    FormatError
        The bytes are not a 64-bit cubin, or a part that this function reads is damaged.
    """
    kernels = _CubinKernels(data)
    memory = kernels.shared_memory()
    entries = {}
    for name, entry in kernels.items():
        entries[name] = entry._replace(static_shared_memory=memory.get(name, 0))
    return entries


def index_cubin(data: Binary) -> Mapping[str, KernelEntry]:
    """Return the kernels of a cubin by name. The record of a kernel is read when it is used.

    Parameters
    ----------
    data
        The cubin.

    Raises
    ------
    FormatError
        The bytes are not a 64-bit cubin, or its tables are damaged. A damaged record raises it when
        it is used.
    """
    return _CubinKernels(data)


class _CubinKernels(Mapping[str, "KernelEntry"]):
    """The kernels of a cubin, a 64-bit little-endian ELF file. They are read when they are used."""

    def __init__(self, data: Binary) -> None:
        view = memoryview(data).cast("B")
        if len(view) < _HEADER or bytes(view[:4]) != b"\x7fELF":
            raise error("its bytes do not begin with an ELF header")
        if bytes(view[4:6]) != b"\2\1":
            raise error("expected a 64-bit little-endian ELF file")
        self._file = ElfFile(view)
        if self._file.machine != CUDA:
            raise error(f"its machine is {self._file.machine}; expected {CUDA} (CUDA)")
        try:
            section_names = bytes(self._file.names())
        except ValueError as problem:
            raise error(str(problem)) from None
        #: The bytes that may still be read. Sections of a sound file do not overlap.
        self._room = 2 * len(view)
        self._numbers: dict[str, int] = {}
        records = self._records(section_names)
        code = self._entries()
        for name, number, code_section in records:
            if name in self._numbers:
                raise error(f"it has two sections {_PREFIX + name!r}")
            if code_section in code:
                self._numbers[name] = number

    def _records(self, names: bytes) -> list[tuple[str, int, int]]:
        """Return the name, the number and the field `info` of each section with the record of a
        kernel.

        Characters of a name that are not UTF-8 are escaped.
        """
        # This loop is the most of the time in which a module with many kernels is loaded, so it
        # uses local names.
        find = names.find
        room = self._room
        prefix = _PREFIX.encode()
        length = len(prefix)
        found = []
        for number, (start, kind, _, size, _, info, _) in enumerate(self._file.sections()):
            if kind != _INFO:
                continue
            end = find(b"\0", start)
            if end < 0:
                raise error("the name of a section is outside of the table of names")
            room -= end - start
            if room < 0:
                raise error(_OVERLAP)
            if names.startswith(prefix, start, end):
                room -= size
                name = names[start + length : end].decode("utf-8", "backslashreplace")
                found.append((name, number, info))
        self._room = room
        return found

    def shared_memory(self) -> dict[str, int]:
        """Return the bytes of static shared memory by kernel; empty if the file does not have the
        exact numbers.
        """
        names = bytes(self._file.names())
        found = {}
        for start, kind, _, size, _, _, _ in self._file.sections():
            if kind == _NOBITS and names.startswith(_SHARED, start):
                end = names.find(b"\0", start)
                self._room -= end - start
                if end < 0 or self._room < 0:
                    raise error(_OVERLAP)
                name = names[start + len(_SHARED) : end].decode("utf-8", "backslashreplace")
                found[name] = size
        if _RESERVED in found:
            return {}
        return found

    def _entries(self) -> set[int]:
        """Return the numbers of the sections with the code of kernels."""
        kernel = _KERNEL
        size = _SYMBOL.size
        found: set[int] = set()
        for number, (_, kind, _, section_bytes, _, _, _) in enumerate(self._file.sections()):
            if kind == _SYMBOLS:
                self._room -= section_bytes
                if self._room < 0:
                    raise error(_OVERLAP)
                table = self._contents(number)
                symbols = _SYMBOL.iter_unpack(table[: len(table) // size * size])
                found.update(section for mark, section in symbols if mark & 0x100F == kernel)
        return found

    def _contents(self, number: int) -> memoryview:
        try:
            return self._file.contents(number)
        except ValueError as problem:
            raise error(str(problem)) from None

    def __getitem__(self, name: str) -> KernelEntry:
        return _kernel(name, bytes(self._contents(self._numbers[name])))

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def _kernel(name: str, contents: bytes) -> KernelEntry:
    places: dict[int, ParamPlace] = {}
    values: dict[int, tuple[Any, ...]] = {}
    at = 0
    while at + 4 <= len(contents):
        form, number, word = _ATTRIBUTE.unpack_from(contents, at)
        start = at + 2
        size = 2
        at += 4
        if form == _SIZED:
            start = at
            size = word
            at += word
        if at > len(contents):
            raise error(f"the attribute {number:#x} is outside of its section")
        layout = _VALUES.get(number, _FLAG)
        if size < layout.size:
            raise error(
                f"the attribute {number:#x} of the kernel {name!r} has {count_text(size, 'byte')}; expected {layout.size}"
            )
        value = layout.unpack_from(contents, start)
        if layout is _PLACE:
            ordinal, offset, word = value
            if ordinal in places:
                raise error(f"the kernel {name!r} has two parameters of the number {ordinal}")
            if offset == _REFERENCE:
                places[ordinal] = ParamPlace(0, 0)
            elif number == _PARAM:
                places[ordinal] = ParamPlace(offset, word >> 18)
            else:
                places[ordinal] = ParamPlace(offset, word & 0xFFFF)
        elif number == _PARAM_BANK:
            values[_PARAM_BYTES] = value
        else:
            values[number] = value

    (param_bytes,) = values.get(_PARAM_BYTES, (0,))
    params = _params(name, places, param_bytes)
    return KernelEntry(
        name,
        params,
        values.get(_BLOCK),
        prod(values.get(_MAX_BLOCK, (0,))),
        values.get(_CLUSTER),
        values.get(_MAX_CLUSTER, (0,))[0],
        _EXPLICIT in values,
        _CLUSTER_GRID in values,
    )


def _params(
    name: str, places: Mapping[int, ParamPlace], param_bytes: int
) -> tuple[ParamPlace, ...] | None:
    """Return the parameters of a kernel in order; None if it has bytes of parameters, and no
    parameters.
    """
    if sorted(places) != list(range(len(places))):
        raise error(
            f"the kernel {name!r} has {len(places)} parameters, and their numbers are not 0 to {len(places) - 1}"
        )
    params = tuple(places[ordinal] for ordinal in range(len(places)))
    end = 0
    for param in params:
        if param.size and param.offset < end:
            raise error(
                f"a parameter of the kernel {name!r} begins at byte {param.offset}, and the one before it ends at byte {end}"
            )
        end = max(end, param.offset + param.size)
    if end > param_bytes:
        raise error(
            f"the parameters of the kernel {name!r} end at byte {end}, and the kernel has {count_text(param_bytes, 'byte')} of parameters"
        )
    if param_bytes and not params:
        return None
    return params


def error(problem: str) -> FormatError:
    """Return the error for an invalid cubin."""
    return FormatError(f"the cubin is invalid: {problem}", kind="cuda")
