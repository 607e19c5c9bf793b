"""The signature of a function, made once from its FunctionInfo: each call checks and converts its
arguments by it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from sys import intern
from typing import Any

from devmod import FunctionInfo, Interface, Param
from devmod._values.tags import DIMENSIONS, SCOPES
from devmod.backend import (
    LAUNCH_KEYWORDS,
    WRITE_ACCESS_TAG,
    array_bytes,
    dtype_name,
    escape_line,
    is_packed,
    parse_dtype,
    value_tags,
)
from devmod.errors import ArgumentError, DevmodError, FormatError
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._launch.packs import Pack
from devmod_runtime._launch.scalars import (
    AddressBytes,
    BufferLayout,
    packer,
    plain_packer,
    struct_packer,
)

#: The place of the launch value of dynamic shared memory.
SHARED_MEMORY = (len(SCOPES), 0)


class Argument:
    """One argument of a function.

    Attributes
    ----------
    number, name
        The position from 0, and the name; "" if it is unknown.
    param
        The parameter of the interface; without one, what follows from the type.
    kind
        "buffer", "scalar", "uniform", "local", "image" or "sampler".
    type
        A buffer's element type or a scalar's type; "" if it is unknown.
    type_text
        The element type in a message.
    unit
        The bytes of one element; 1 if the size is unknown.
    size
        The bytes that the kernel declares for a buffer; an array must have at least as many. 0 if
        the size is unknown.
    written
        Whether the kernel may write to the buffer.
    accepts_local
        Whether a `Local` is accepted as well: a handle of a function without an interface may be a
        ``__local`` pointer.
    default
        The value of a call that omits the argument; None if it is required.
    plain_packer, pack
        For a scalar: the exact type and the converter of plain numbers, and the converter of all
        values (`devmod_runtime._launch.scalars`).
    layout
        For a buffer of structs with known members: their layout; else None.
    is_address
        Whether the value is the address of a device array: a scalar of the type "handle".
    packed
        For a buffer that is several values of the kernel: what these are; None for other arguments.
    """

    def __init__(
        self,
        number: int,
        param: Param,
        type: str,  # noqa: A002 - the field's name in the format
        written: bool,
        accepts_local: bool,
        pack: Callable[[Any], bytes] | None,
        layout: BufferLayout | None,
    ) -> None:
        kind = param.kind
        self.number = number
        self.param = param
        self.name = param.name
        self.kind = kind
        self.type = intern(type)
        self.type_text = type
        self.default = param.default
        self.written = written
        self.accepts_local = accepts_local
        self.pack = pack
        self.layout = layout
        #: The argument in a message: ``argument 2 'b'``.
        self.label = f"argument {number + 1}"
        if param.name:
            self.label += f" {param.name!r}"
        self.is_address = kind == "scalar" and type == "handle"
        self.plain_packer = None
        if kind == "scalar" and not param.align:
            self.plain_packer = plain_packer(type)

        self.size = 0
        self.unit = 1
        self._base = ""
        #: Whether it is a buffer of three-vectors, which take four lanes.
        self.is_padded = False
        if kind == "buffer":
            self._read_elements(param, type)
        self.packed = None
        if param.pack:
            self.packed = Pack(param, self.type, self.unit)

        #: The class of what a call gives, or of what the object of another library becomes.
        self.object_type: Any = DeviceArray
        if kind == "image":
            from devmod_runtime._device.image import Image

            self.object_type = Image
        elif kind == "sampler":
            from devmod_runtime._device.image import Sampler

            self.object_type = Sampler
        #: The type of the arrays that need no look at their elements; None if all need it.
        self.plain_type = None
        if layout is None and not self.is_padded and not self.size:
            self.plain_type = self.type

    def _read_elements(self, param: Param, type_name: str) -> None:
        """Set the size of a buffer and of its elements."""
        self.size = param.size
        if not type_name:
            return
        code, bits, lanes = parse_dtype(type_name)
        self._base = dtype_name((code, bits, 1))
        if param.align:
            self.type_text = f"structs of {lanes} bytes"
        self.is_padded = lanes == 3 and not param.align
        padded_type = (code, bits, lanes + self.is_padded)
        # Packed elements may end within a byte, and a type of no bits has no elements: any number
        # of bytes is valid.
        if not is_packed(padded_type):
            self.unit = max(array_bytes(padded_type), 1)

    @property
    def text(self) -> str:
        """The argument in a list: its name, or else its type."""
        return self.name or self.type or self.kind

    @property
    def expected(self) -> str:
        """What a call gives for an array, an image or a sampler, in a message."""
        if self.kind == "local":
            return "memory that a block shares: pass devmod.Local(nbytes)"
        if self.kind == "sampler":
            return "a sampler, such as device.sampler()"
        if self.kind == "image":
            form = ""
            if self.param.format:
                form = f" of {escape_line(self.param.format)}"
            return (
                f"an image{form}, such as device.image_from_numpy(array), whose format you choose"
            )
        if not self.type_text:
            return "an array"
        return f"an array of {self.type_text}"

    @property
    def element(self) -> str:
        """The type of a buffer's numbers; "" for structs and unknown types."""
        if self.type_text != self.type:
            return ""
        return self._base

    def accepts_type(self, dtype: str) -> bool:
        """Return whether the elements of an array of type `dtype` can be elements of this
        buffer.
        """
        if not self.type or dtype in (self.type, self._base, "void"):
            return True
        code, bits, lanes = parse_dtype(dtype)
        if (code, bits) == (1, 8):
            # NumPy's records: an array of structs or vectors may have such a type.
            return lanes > 1 and array_bytes((code, bits, lanes)) == self.unit
        return dtype_name((code, bits, 1)) == self._base


class Signature:
    """The arguments and launch values of a function.

    Attributes
    ----------
    label, kind, name : str
        The function in a message, its kind and its name.
    arguments : tuple of Argument
        The arguments in order.
    launch : tuple of (int, int)
        For each launch value that may follow the arguments: 0 grid, 1 block, 2 cluster, 3 preferred
        cluster, and the axis; `SHARED_MEMORY` for dynamic shared memory.
    tags : tuple of str
        The launch tags of those values.
    interface : Interface or None
        The function's interface.
    """

    def __init__(
        self, label: str, name: str, info: FunctionInfo, launcher: Any, interface: Interface | None
    ) -> None:
        self.label = label
        self.kind = launcher.kind
        self.name = name
        interface = interface or launcher.interface or info.interface
        params: Sequence[Param]
        if interface is None:
            params = [_untyped(each) for each in info.arg_types]
        else:
            params = interface.params
        access = write_access(info)
        arguments = []
        buffers = place = 0
        for number, param in enumerate(params):
            is_value = param.kind in ("scalar", "uniform")
            type_ = param.type
            if is_value and not type_:
                type_ = info.arg_types[place]
            place += len(param.pack) or 1
            written = param.access != "r"
            if param.kind == "buffer":
                if not param.access and buffers < len(access):
                    written = access[buffers]
                buffers += 1
            pack = layout = None
            if is_value:
                pack = _packer_of(param, type_, launcher)
            elif param.members:
                layout = BufferLayout(param.name, param.members)
            arguments.append(
                Argument(number, param, type_, written, interface is None, pack, layout)
            )
        self.arguments = tuple(arguments)
        self.interface = interface
        self.tags = value_tags(info.launch_param_tags)
        self.launch = tuple(DIMENSIONS.get(tag, SHARED_MEMORY) for tag in self.tags)

    @property
    def text(self) -> str:
        """The arguments in a message: ``a, b, c, n``, or the types of arguments without a name."""
        return ", ".join(each.text for each in self.arguments)

    def error(
        self, text: str, argument: str = "", family: type[DevmodError] = ArgumentError
    ) -> DevmodError:
        """Return the error of a call. `text` follows the function in the message."""
        error = family(f"{self.label}{text}", kind=self.kind, function=self.name, argument=argument)
        error.keywords = LAUNCH_KEYWORDS
        return error


def _untyped(arg_type: str) -> Param:
    """Return the parameter of a function without an interface."""
    if arg_type == "handle":
        return Param("", "buffer")
    return Param("", "scalar", arg_type)


def _packer_of(param: Param, type_name: str, launcher: Any) -> Callable[[Any], bytes] | None:
    """Return the converter of a value; None for an address."""
    if param.members:
        return struct_packer(param.name, param.members, parse_dtype(type_name)[2])
    if type_name == "handle":
        return None
    return packer(
        type_name,
        bool_bytes=launcher.bool_bytes,
        vec3_lanes=launcher.vec3_lanes,
        align=param.align,
    )


def write_access(info: FunctionInfo) -> list[bool]:
    """Return for each buffer in order whether the kernel writes to it, by TVM's tag
    ``paramWriteAccess:[0,0,1]``; [] without the tag.
    """
    for tag in info.launch_param_tags:
        if tag.startswith(WRITE_ACCESS_TAG):
            return [digit != "0" for digit in tag[len(WRITE_ACCESS_TAG) :] if digit in "01"]
    return []


def block_packer(interface: Interface) -> Callable[[Sequence[Any]], tuple[bytes, ...]]:
    """Return a function that packs scalars into blocks of memory, for a backend that passes them
    so.

    Parameters
    ----------
    interface
        The layout: its `blocks`, and each scalar's `at` (number of the block, byte offset).

    Returns
    -------
    callable
        Takes the values in the order of the arguments (scalars as bytes). Returns the bytes of each
        block, in the order of ``interface.blocks``.

    Raises
    ------
    FormatError
        A scalar is outside its block, or its block does not exist.
    """
    #: The size of each block, and the offset and the number of each of its scalars.
    layouts: list[tuple[int, list[tuple[int, int]]]] = [
        (block.size, []) for block in interface.blocks
    ]
    for number, param in enumerate(interface.params):
        # A uniform is a separate binding with the value as its content; its place is (set,
        # binding).
        if param.kind != "scalar" or not isinstance(param.at, tuple):
            continue
        block, offset = param.at
        if block >= len(layouts):
            raise FormatError(
                f"argument {number + 1} is in block {block} (counted from 0), and the interface has {len(layouts)}"
            )
        size, scalars = layouts[block]
        if offset >= size:
            raise FormatError(
                f"argument {number + 1} is at byte {offset} of a block of {size} bytes"
            )
        # In this order: the padding of a three-vector may have the next scalar.
        insort(scalars, (offset, number))

    def pack(values: Sequence[Any]) -> tuple[bytes, ...]:
        blocks = []
        for size, places in layouts:
            if places and isinstance(values[places[0][1]], BlockBytes):
                blocks.append(bytes(values[places[0][1]]))
                continue
            data = bytearray(size)
            for offset, number in places:
                value = values[number]
                # The padding of a value (a three-vector's fourth lane) may reach beyond the block's
                # end; it is dropped.
                data[offset : offset + len(value)] = value[: size - offset]
            blocks.append(bytes(data))
        return tuple(blocks)

    return pack


class BlockBytes(bytes):
    """The content of a block that a call gives as a record: the value of each of its scalars."""

    __slots__ = ()


class AddressBlock(AddressBytes, BlockBytes):
    """The content of a block with addresses of device arrays."""
