"""The parameter block of a kernel: the places of its arguments, and the bytes of a launch.

The image of a kernel has the offsets and the sizes of its parameters. An image without them has the places that a C++ compiler chooses
for the types of the arguments, by their alignment.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from devmod.backend import array_bytes, parse_dtype
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devmod import FunctionInfo, Param

#: The bytes and the alignment of a pointer.
POINTER_BYTES = 8
#: The largest alignment of a vector type.
_MAX_ALIGN = 16


class Place(NamedTuple):
    """The place of a parameter in the block: its offset and its size in bytes."""

    offset: int
    size: int


class Argument(NamedTuple):
    """An argument as the payload's fmap declares it.

    Attributes
    ----------
    title : str
        Its type in messages: "float32" or "a buffer".
    size, align : int
        Its bytes, and its natural alignment.
    is_pointer : bool
        Whether its value is an address; that of others is bytes.
    """

    title: str
    size: int
    align: int
    is_pointer: bool = False


class ParameterLayout:
    """The parameters of a kernel.

    Parameters
    ----------
    places
        The place of each parameter, in the order of the arguments.
    pointers
        For each parameter, whether it is a pointer: its value is an int, and that of others is bytes.

    Attributes
    ----------
    size : int
        The bytes of the block.
    offsets : tuple of int
        The offset of each parameter.
    pack : callable
        Takes the value of each argument, and returns the bytes of the block.
    """

    __slots__ = ("offsets", "pack", "size")

    pack: Callable[..., bytes]

    def __init__(self, places: Sequence[Place], pointers: Sequence[bool]) -> None:
        # "N" is faster than "Q". It is native, and so aligned to 8 bytes, as pointers are in C++.
        is_aligned = all(offset % 8 == 0 for (offset, _), is_pointer in zip(places, pointers, strict=True) if is_pointer)
        order, pointer = ("@", "N") if is_aligned else ("<", "Q")
        end, layout = 0, order
        for (offset, size), is_pointer in zip(places, pointers, strict=True):
            layout += f"{offset - end}x" if offset > end else ""
            layout += pointer if is_pointer else f"{size}s"
            end = offset + size
        self.size = end
        self.offsets = tuple(offset for offset, _ in places)
        self.pack = Struct(layout).pack


def parameter_layout(
    kind: str,
    info: FunctionInfo,
    arguments: Sequence[Argument],
    places: Sequence[Place] | None,
    find_problem: Callable[[int], str] = lambda number: "",
) -> ParameterLayout:
    """Return the parameter block of a kernel.

    Parameters
    ----------
    kind, info, arguments
        The kind, the function, and its arguments as `declared_arguments` returns them.
    places
        The parameters in the image; None if they are unknown.
    find_problem
        A further check of an argument by its number: returns what the kernel takes in its place; "" if it is right.

    Raises
    ------
    FormatError
        The image declares other parameters than the function.
    """
    pointers = [argument.is_pointer for argument in arguments]
    if places is None:
        return ParameterLayout(_natural_places(arguments), pointers)
    label = f"the {kind} kernel {info.name!r}"
    if len(places) != len(arguments):
        raise FormatError(f"{label} takes {len(places)} arguments, and the payload's fmap has {len(arguments)}", kind=kind)
    end = 0
    for number, (place, argument) in enumerate(zip(places, arguments, strict=True)):
        if place.size != argument.size:
            raise FormatError(
                f"{label} takes {place.size} bytes as argument {number + 1}, and the payload's fmap has {argument.title} of "
                f"{argument.size} bytes",
                kind=kind,
            )
        problem = find_problem(number)
        if problem:
            raise FormatError(f"{label} takes {problem} as argument {number + 1}, and the payload's fmap has {argument.title}", kind=kind)
        if place.offset < end:
            raise FormatError(f"{label} is damaged: its argument {number + 1} overlaps the one before it", kind=kind)
        end = place.offset + place.size
    return ParameterLayout(places, pointers)


def declared_arguments(
    kind: str, title: str, info: FunctionInfo, special: Callable[[int], Argument | None] = lambda number: None
) -> list[Argument]:
    """Return the arguments of a function.

    Parameters
    ----------
    kind, title
        The kind, and its title in messages.
    info
        The function.
    special
        Returns the argument of a number if the kind has a type of its own for it, else None.

    Raises
    ------
    FormatError
        The function has shared memory as an argument.
    """
    arguments = []
    for number, arg_type in enumerate(info.arg_types):
        param = info.interface.params[number] if info.interface is not None else None
        argument = special(number)
        if argument is not None:
            arguments.append(argument)
        elif param is not None and param.kind == "local":
            raise FormatError(
                f"the {kind} function {info.name!r} has {param.name!r} of kind local, and {title} kernels take no shared memory as an "
                "argument: declare it in the kernel as extern __shared__, and pass shared_memory=",
                kind=kind,
                function=info.name,
            )
        elif (param.kind == "buffer") if param is not None else (arg_type == "handle"):
            arguments.append(Argument(_title(param, arg_type), POINTER_BYTES, POINTER_BYTES, is_pointer=True))
        else:
            arguments.append(_scalar(param, arg_type))
    return arguments


def _title(param: Param | None, arg_type: str) -> str:
    if param is not None and param.kind != "scalar":
        return f"a {param.kind}"
    return (param.type if param is not None else "") or arg_type


def _scalar(param: Param | None, arg_type: str) -> Argument:
    title = _title(param, arg_type)
    code, bits, lanes = parse_dtype((param.type if param is not None else "") or arg_type)
    if param is not None and param.align:
        return Argument(title, lanes, param.align)
    size = lanes if (code, bits) == (1, 1) else array_bytes((code, bits, lanes))
    element = size // lanes if lanes else size
    # float3 has the alignment of a float, and float4 of 16 bytes.
    align = element if lanes == 3 else size & -size
    return Argument(title, size, max(1, min(align, _MAX_ALIGN)))


def _natural_places(arguments: Sequence[Argument]) -> list[Place]:
    end, places = 0, []
    for argument in arguments:
        offset = -(-end // argument.align) * argument.align
        places.append(Place(offset, argument.size))
        end = offset + argument.size
    return places
