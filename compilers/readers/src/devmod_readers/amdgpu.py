"""The readers of AMD's code objects. They need no driver and no ROCm.

- `read_code_object` returns the kernels of a code object with the places of their arguments and
  their limits.
- `find_kernels` returns which of some kernels a code object has.
- `check_code_object` checks that a code object is complete, before a driver loads it.

They raise `devmod.FormatError` for a file that is damaged.

The notes of a code object: one msgpack map with the metadata of its kernels.

Source: LLVM's "User Guide for AMDGPU Backend", code object metadata of versions 3 to 6. The file
comes from a stranger, so each number is checked.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from devmod.errors import FormatError, quote_name
from devmod_readers.elf import LOADED, NOTES, ElfFile, dynamic_symbols, find_damage, segment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from devmod.backend import Binary

__all__ = [
    "ArgumentPlace",
    "CodeObjectKernel",
    "check_code_object",
    "find_kernels",
    "read_code_object",
]


Dims = tuple[int, int, int]
_METADATA = 32
_MAX_NOTES = 1 << 26
#: The most entries of a map or an array in the notes.
_MAX_ITEMS = 1 << 16

#: The flag of a segment that has code.
_EXECUTABLE = 1
#: The limit on the loaded segments, of which a code object has about six.
_MAX_LOADED = 64
_DESCRIPTOR_BYTES = 64
#: Instructions are aligned to 256 bytes.
_ENTRY_ALIGNMENT = 256


class ArgumentPlace(NamedTuple):
    """The place of an argument in the argument buffer of a kernel.

    Parameters
    ----------
    offset, size
        Its first byte and its size in bytes.
    kind
        AMD's ``.value_kind``: "global_buffer", "by_value", "dynamic_shared_pointer", or a hidden
        one such as "hidden_block_count_x", which the driver passes in place of the caller.
    """

    offset: int
    size: int
    kind: str


# Where to change: what is read of an ELF file, such as a code object of AMD
#   here: `compilers/readers/src/devmod_readers/elf.py` for sections and symbols
#   also: `compilers/readers/src/devmod_readers/payloads/rocm.py`, if a check needs it;
#     `tools/fuzzing/readers.py`
#   tests: `compilers/readers/tests/test_code_objects.py`, `compilers/readers/tests/test_elf.py`
class CodeObjectKernel(NamedTuple):
    """A kernel of a code object.

    Parameters
    ----------
    name
        The name, mangled for C++.
    symbol
        The symbol of its descriptor: the name with ".kd".
    arguments
        The places of all arguments in order, the hidden ones last.
    shared_bytes
        The shared memory of a block that the kernel declares, in bytes.
    block
        The threads of a block that the kernel requires; None if it requires none.
    max_threads
        The most threads of a block.
    wave
        The lanes of a wave: 32 or 64.
    """

    name: str
    symbol: str
    arguments: tuple[ArgumentPlace, ...]
    shared_bytes: int
    block: Dims | None
    max_threads: int
    wave: int

    @property
    def visible_arguments(self) -> tuple[ArgumentPlace, ...]:
        """The arguments that a caller passes."""
        return tuple(each for each in self.arguments if not each.kind.startswith("hidden_"))

    @property
    def places(self) -> list[tuple[int, int]]:
        """The size of each argument that a caller passes, and the alignment of its place: at most
        16 bytes.
        """
        places = []
        for each in self.visible_arguments:
            # The greatest powers of two that divide both; any divides 0.
            of_offset = each.offset & -each.offset or 16
            of_size = each.size & -each.size or 1
            places.append((each.size, min(16, of_offset, of_size)))
        return places


def read_code_object(code: Binary) -> dict[str, CodeObjectKernel]:
    """Return the kernels of a code object by name.

    Parameters
    ----------
    code
        An ELF file for amdgcn. A bundle is not one.

    Raises
    ------
    FormatError
        The file is not a code object, or its metadata is damaged.
    """
    import msgpack  # type: ignore[import-untyped]

    kernels: dict[str, CodeObjectKernel] = {}
    for note in _metadata(memoryview(code).cast("B")):
        try:
            values = msgpack.unpackb(
                note,
                max_array_len=_MAX_ITEMS,
                max_map_len=_MAX_ITEMS,
                max_ext_len=0,
                strict_map_key=True,
            )
            for entry in values.get("amdhsa.kernels", []):
                kernel = _kernel(entry)
                kernels[kernel.name] = kernel
        except (ValueError, TypeError, KeyError, AttributeError, msgpack.UnpackException) as error:
            raise _damaged(
                f"its metadata cannot be read: {type(error).__name__}: {error}"
            ) from None
    return kernels


def find_kernels(code: Binary, names: Iterable[str]) -> set[str]:
    """Return those of the names that are kernels of a code object. The descriptor of a kernel has a
    symbol, the name with ".kd".

    Parameters
    ----------
    code
        A code object, which is searched and not read: a damaged one raises nothing.
    names
        The names, mangled for C++.
    """
    data = bytes(code)
    return {name for name in names if b"\0" + name.encode() + b".kd\0" in data}


def _kernel(entry: Any) -> CodeObjectKernel:
    total = _count(entry[".kernarg_segment_size"])
    arguments = tuple(map(_argument, entry.get(".args", [])))
    if any(each.offset + each.size > total for each in arguments):
        raise ValueError("an argument ends outside the argument buffer")
    block = entry.get(".reqd_workgroup_size")
    if block is not None:
        x, y, z = (_count(each) for each in block)
        block = (x, y, z)
    return CodeObjectKernel(
        _text(entry[".name"]),
        _text(entry[".symbol"]),
        arguments,
        _count(entry.get(".group_segment_fixed_size", 0)),
        block,
        _count(entry.get(".max_flat_workgroup_size", 0)),
        _count(entry.get(".wavefront_size", 64)),
    )


def _argument(entry: Any) -> ArgumentPlace:
    return ArgumentPlace(
        _count(entry[".offset"]), _count(entry[".size"]), _text(entry[".value_kind"])
    )


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise ValueError(f"{value!r} is not an integer from 0 to 2**32 - 1")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is not a string")
    return value


def _metadata(code: memoryview) -> Iterator[memoryview]:
    """Yield the descriptor of each note with metadata."""
    if len(code) < 64 or bytes(code[:6]) != b"\x7fELF\x02\x01":
        raise _damaged("it does not begin with the header of a 64-bit ELF file")
    try:
        sections = [*ElfFile(code).sections()]
    except ValueError:
        sections = []
    if not sections:
        raise _damaged("its section headers end outside the file")
    total = 0
    for _, kind, offset, size, *_ in sections:
        if kind != NOTES:
            continue
        if offset + size > len(code) or size > _MAX_NOTES:
            raise _damaged("its notes end outside the file")
        total += size
        if total > len(code):
            raise _damaged("its notes overlap")
        yield from _metadata_notes(code[offset : offset + size])


def _metadata_notes(notes: memoryview) -> Iterator[memoryview]:
    """Yield the descriptor of each note with metadata in a section."""
    at = 0
    while at + 12 <= len(notes):
        name_size, data_size, type_ = struct.unpack_from("<III", notes, at)
        name = at + 12
        data = name + -(-name_size // 4) * 4
        if data + data_size > len(notes):
            raise _damaged("a note ends outside its section")
        if type_ == _METADATA and bytes(notes[name : name + name_size]) == b"AMDGPU\0":
            yield notes[data : data + data_size]
        at = data + -(-data_size // 4) * 4


def _damaged(reason: str) -> FormatError:
    return FormatError(
        f"the rocm payload of format 'hsaco' is damaged, or is not a code object: {reason}",
        kind="rocm",
    )


# -- The kernel descriptors of a code object: 64 bytes each, with the place of the kernel's first
# instruction.
#
# Source: LLVM's "User Guide for AMDGPU Backend", kernel descriptor. The dynamic symbol
# ``<name>.kd`` has the address.


def check_code_object(code: Binary, symbols: Iterable[str]) -> None:
    """Check that the sections and segments of a code object are in the file, and that kernels have
    a descriptor and code.

    Parameters
    ----------
    code
        The code object.
    symbols
        The symbols of the descriptors: `CodeObjectKernel.symbol`.

    Raises
    ------
    FormatError
        The file is truncated or damaged.
    """
    problem = find_damage(code) or _find_damage(memoryview(code).cast("B"), list(symbols))
    if problem:
        raise FormatError(
            f"the rocm payload of format 'hsaco' is truncated or damaged: {problem}", kind="rocm"
        )


def _find_damage(code: memoryview, symbols: list[str]) -> str:
    elf = ElfFile(code)
    loaded = [segment for segment in elf.segments() if segment.kind == LOADED]
    if len(loaded) > _MAX_LOADED:
        return f"it has {len(loaded)} loaded segments; expected at most {_MAX_LOADED}"
    try:
        found = dynamic_symbols(elf, symbols)
    except ValueError as problem:
        return str(problem)
    executable = [segment for segment in loaded if segment.flags & _EXECUTABLE]
    for symbol in symbols:
        label = f"the kernel {quote_name(symbol.removesuffix('.kd'))}"
        if symbol not in found:
            return f"{label} has no descriptor"
        address, _ = found[symbol]
        segment = segment_of(loaded, address, _DESCRIPTOR_BYTES)
        if segment is None:
            return f"the descriptor of {label} is outside of the file"
        place = segment.offset + address - segment.address
        entry = address + int.from_bytes(code[place + 16 : place + 24], "little", signed=True)
        if entry % _ENTRY_ALIGNMENT or segment_of(executable, entry, 1) is None:
            return f"the code of {label} is outside of the file"
    return ""
