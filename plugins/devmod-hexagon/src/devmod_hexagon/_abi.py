"""The places of arguments in a call, by the Hexagon C ABI (LLVM's HexagonCallingConv.td and Clang's
HexagonABIInfo).

- A value of up to 4 bytes takes the next register of r0 to r5. Small integers are extended.
- A value of 5 to 8 bytes takes the next pair (r1:0, r3:2, r5:4). The skipped register stays empty.
- Without a free register, values go to the stack in order: 4 bytes aligned to 4, 8 bytes aligned to
  8.
- A struct of up to 8 bytes counts as a value of its size. A larger one is copied to the stack with
  its own alignment, 4 at least, and takes 8 bytes at least. So is a smaller one whose alignment is
  less than its size, if Clang counts no free register for it.
"""

from __future__ import annotations

import struct

from devmod.backend import STRUCT_FORMATS, array_bytes, parse_dtype
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod import FunctionInfo

REGISTER_BYTES = 24
#: The struct module's format of each type that a function may return.
_RESULTS = {
    name: STRUCT_FORMATS[name]
    for name in (
        *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
        *("float16", "float32", "float64"),
    )
}
MAX_STACK_BYTES = 65536


class CallLayout:
    """The places of a function's arguments, and of the numbers of type uint32 that follow them.

    Attributes
    ----------
    stack_bytes
        The bytes of the stack, a multiple of 8.
    pack
        Return the registers and the stack of a call, one bytes object, from the arguments:
        addresses of buffers as ints, the bytes of scalars in little-endian order.
    """

    __slots__ = ("pack", "stack_bytes")

    def __init__(self, info: FunctionInfo, numbers: int = 0) -> None:
        placer = _Placer()
        fields = [_field(info, number, placer) for number in range(len(info.arg_types))]
        fields += [(placer.place(4, 0), 4, "bytes") for _ in range(numbers)]
        self.stack_bytes = -(-placer.stack // 8) * 8
        self.pack = _packer(fields, REGISTER_BYTES + self.stack_bytes)


#: An argument: its offset in registers and stack, its bytes, and its extension ("address", "signed"
#: or "bytes").
_Field = tuple[int, int, str]


class _Placer:
    """Assigns places to arguments in their order."""

    def __init__(self) -> None:
        #: The registers that LLVM has assigned.
        self.registers = 0
        self.stack = 0
        #: The registers that Clang counts as free. They decide which structs are copied. LLVM may
        #: have another number of free registers.
        self._free_registers = 6

    def place(self, size: int, struct_align: int) -> int:
        """Return the offset of the next argument.

        `struct_align` is 0 for other types than structs.
        """
        if size > 8:
            return self._place_on_stack(max(struct_align, 4), max(size, 8))
        if not self._count_registers(size) and size > struct_align > 0:
            return self._place_on_stack(max(struct_align, 4), 8)
        if size > 4:
            self.registers += self.registers & 1
        words = 1 if size <= 4 else 2
        if self.registers + words <= 6:
            self.registers += words
            return 4 * (self.registers - words)
        return self._place_on_stack(4 * words, 4 * words)

    def _place_on_stack(self, align: int, size: int) -> int:
        start = -(-self.stack // align) * align
        self.stack = start + size
        return REGISTER_BYTES + start

    def _count_registers(self, size: int) -> bool:
        """Return whether Clang counts a free register for a value (HexagonAdjustRegsLeft)."""
        if size <= 4:
            fits = self._free_registers > 0
            self._free_registers -= fits
        else:
            fits = self._free_registers >= 2
            self._free_registers = max((self._free_registers & ~1) - 2, 0)
        return fits


def result_reader(info: FunctionInfo) -> Callable[[bytes], Any] | None:
    """Return a function that reads a result from the bytes of r1:0; None for a function that
    returns none.

    Raises
    ------
    FormatError
        The interface has a result of a type that the registers do not hold.
    """
    name = info.interface.extra.get("result") if info.interface is not None else None
    if name is None:
        return None
    if name not in _RESULTS:
        expected = ", ".join(_RESULTS)
        raise FormatError(
            f"the hexagon function {info.name!r} has a result of the type {name!r}; expected one of {expected}",
            kind="hexagon",
            function=info.name,
        )
    layout = struct.Struct("<" + _RESULTS[name])
    return lambda data: layout.unpack_from(data)[0]


def _field(info: FunctionInfo, number: int, placer: _Placer) -> _Field:
    type_ = info.arg_types[number]
    if type_ == "handle":
        return placer.place(4, 0), 4, "address"
    struct_align = info.interface.values[number].align if info.interface is not None else 0
    parsed = parse_dtype(type_)
    size = array_bytes(parsed)
    extension = "signed" if type_ in ("int8", "int16") else "bytes"
    return placer.place(size, struct_align), size, extension


def _packer(fields: Sequence[_Field], total: int) -> Callable[[Sequence[Any]], bytes]:
    """Return a function that packs all arguments with one Struct."""
    order = sorted(range(len(fields)), key=lambda number: fields[number][0])
    codes = ["<"]
    end = 0
    for number in order:
        start, size, extension = fields[number]
        codes.append(f"{start - end}x" + ("I" if extension == "address" else f"{max(size, 4)}s"))
        end = start + max(size, 4)
    codes.append(f"{total - end}x")
    layout = struct.Struct("".join(codes))
    signed = [number for number in range(len(fields)) if fields[number][2] == "signed"]
    if order == list(range(len(fields))) and not signed:
        return lambda values: layout.pack(*values)

    def pack(values: Sequence[Any]) -> bytes:
        extended = list(values)
        for number in signed:
            extended[number] = int.from_bytes(values[number], "little", signed=True).to_bytes(
                4, "little", signed=True
            )
        return layout.pack(*[extended[number] for number in order])

    return pack
