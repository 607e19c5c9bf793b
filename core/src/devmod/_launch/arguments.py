"""What a function takes: a plan made once from its FunctionInfo, by which each call's arguments are checked and converted."""

from __future__ import annotations

from sys import intern

from devmod._dtypes import dtype_bytes, dtype_name, parse_dtype
from devmod._launch.scalars import fast_packer, packer
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod._info import FunctionInfo, Interface
    from devmod._launch.scalars import Packer

#: The launch tags that take a value, and where it goes: which dimension triple, and which of the three.
_DIMENSIONS = {
    f"{name}.{axis}": (which, number)
    for which, name in enumerate(("blockIdx", "threadIdx", "clusterCtaIdx"))
    for number, axis in enumerate("xyz")
}
_DYNAMIC_SHARED = "tirx.use_dyn_shared_memory"
_WRITE_ACCESS = "paramWriteAccess:"


class Argument:
    """One argument of a function.

    Attributes
    ----------
    number, name
        Its place from 0, and its name; "" where that is not known.
    kind
        "buffer", "scalar", "uniform", "local", "image" or "sampler".
    type
        A buffer's element type or a scalar's type; "" unknown.
    shown
        The element type in a message.
    unit
        The bytes that one element takes; 1 where that is not known.
    written
        Whether the kernel may write to the buffer.
    may_be_local
        Whether a `Local` is taken too: a handle of a function without an interface may be a ``__local`` pointer.
    fast, pack
        For a scalar: the exact type and the converter of plain numbers, and the converter of everything (`devmod._launch.scalars`).
    """

    __slots__ = ("_base", "fast", "kind", "may_be_local", "name", "number", "pack", "shown", "type", "unit", "written")

    def __init__(
        self,
        number: int,
        name: str,
        kind: str,
        type: str,  # noqa: A002 - the field's name in the format
        written: bool,
        may_be_local: bool,
        pack: Packer | None,
        align: int,
    ) -> None:
        self.number, self.name, self.kind, self.type = number, name, kind, intern(type)
        self.written, self.may_be_local = written, may_be_local
        self.pack = pack
        self.shown = type
        self.fast = fast_packer(type) if kind == "scalar" else None
        if kind == "buffer" and type:
            code, bits, lanes = parse_dtype(type)
            self._base = dtype_name((code, bits, 1))
            if align:
                self.shown = f"structs of {lanes} bytes"
            self.unit = dtype_bytes((code, bits, lanes + 1 if lanes == 3 and (code, bits) != (1, 8) else lanes))
        else:
            self._base, self.unit = "", 1

    @property
    def label(self) -> str:
        """The argument in a message: ``argument 2 'b'``."""
        return f"argument {self.number + 1} {self.name!r}" if self.name else f"argument {self.number + 1}"

    def holds(self, dtype: str) -> bool:
        """Whether arrays of that element type may hold this buffer's elements, if there are whole ones."""
        if not self.type or dtype in (self.type, self._base, "void"):
            return True
        code, bits, lanes = parse_dtype(dtype)
        if (code, bits) == (1, 8):
            # NumPy's records: a struct's elements and a vector's come so too.
            return lanes > 1 and dtype_bytes((code, bits, lanes)) == self.unit
        return dtype_name((code, bits, 1)) == self._base

    def takes(self, dtype: str, nbytes: int) -> bool:
        """Whether an array of that element type and size is one of this buffer's elements."""
        return self.holds(dtype) and (dtype == "void" or nbytes % self.unit == 0)


class Plan:
    """A function's arguments and launch values.

    Attributes
    ----------
    arguments : tuple of Argument
        One for each argument.
    launch : tuple of (int, int)
        For each launch value that may follow the arguments: 0 grid, 1 block, 2 cluster, 3 dynamic shared memory; and x, y, z.
    tags : tuple of str
        The launch tags of those values.
    block : tuple of int or None
        The fixed block of threads.
    """

    __slots__ = ("arguments", "block", "launch", "tags")

    def __init__(self, info: FunctionInfo, *, interface: Interface | None = None, bool_bytes: int = 1, vec3_lanes: int = 4) -> None:
        interface = interface or info.interface
        access = write_access(info)
        made = []
        buffers = 0
        for number, declared in enumerate(info.arg_types):
            if interface is not None:
                param = interface.params[number]
                name, kind, align, known = param.name, param.kind, param.align, param.access
                type_ = param.type or (declared if kind in ("scalar", "uniform") else "")
            else:
                name, align, known = "", 0, ""
                kind, type_ = ("buffer", "") if declared == "handle" else ("scalar", declared)
            written = known != "r"
            if kind == "buffer":
                if not known and buffers < len(access):
                    written = access[buffers]
                buffers += 1
            pack = packer(type_, bool_bytes=bool_bytes, vec3_lanes=vec3_lanes, align=align) if kind in ("scalar", "uniform") else None
            made.append(Argument(number, name, kind, type_, written, interface is None, pack, align))
        self.arguments = tuple(made)
        self.block = interface.block if interface is not None else None
        places = [(tag, _DIMENSIONS[tag]) for tag in info.launch_param_tags if tag in _DIMENSIONS]
        if _DYNAMIC_SHARED in info.launch_param_tags:
            places.append((_DYNAMIC_SHARED, (3, 0)))
        self.tags = tuple(tag for tag, _ in places)
        self.launch = tuple(place for _, place in places)

    @property
    def signature(self) -> str:
        """The arguments in a message: ``a, b, c, n``, or their types where no names are known."""
        return ", ".join(each.name or each.type or each.kind for each in self.arguments)


def write_access(info: FunctionInfo) -> list[bool]:
    """For each buffer in order whether it is written, as TVM's tag ``paramWriteAccess:[0,0,1]`` says it; [] where nothing does."""
    for tag in info.launch_param_tags:
        if tag.startswith(_WRITE_ACCESS):
            return [digit != "0" for digit in tag[len(_WRITE_ACCESS) :] if digit in "01"]
    return []


def block_packer(interface: Interface) -> Callable[[Sequence[Any]], tuple[bytes, ...]]:
    """For a backend whose scalars lie in blocks: the function that makes the blocks' bytes of a call's values.

    Parameters
    ----------
    interface
        Its `blocks`, and each scalar's `at` (number of the block, byte offset), are followed.

    Returns
    -------
    callable
        From the values in the order of the arguments (scalars as bytes) to the bytes of each block, in the order of
        ``interface.blocks``.

    Raises
    ------
    FormatError
        A scalar lies outside its block, or in a block that is not there.
    """
    sizes = tuple(block.size for block in interface.blocks)
    places = [
        (number, param.at[0], param.at[1])
        for number, param in enumerate(interface.params)
        # A uniform is a binding of its own, whose content is the value; its place is (set, binding).
        if param.kind == "scalar" and isinstance(param.at, tuple)
    ]

    for number, block, offset in places:
        if block >= len(sizes):
            raise FormatError(f"argument {number + 1} lies in block {block}, and the blocks are {len(sizes)}, counted from 0")
        if offset >= sizes[block]:
            raise FormatError(f"argument {number + 1} lies at byte {offset} of a block of {sizes[block]} bytes")

    def pack(values: Sequence[Any]) -> tuple[bytes, ...]:
        blocks = [bytearray(size) for size in sizes]
        for number, block, offset in places:
            value = values[number]
            # What a type pads itself with (a three-vector's fourth lane) may reach over the block's end: it is not the block's.
            room = len(blocks[block]) - offset
            blocks[block][offset : offset + len(value)] = value[:room]
        return tuple(map(bytes, blocks))

    return pack
