"""The parameter block of a kernel: the places of its arguments, and the bytes of a launch.

The driver copies the parameters of a launch from one block of memory. The image of a kernel has their offsets and sizes. An image
without them has the places that CUDA's C++ compiler would choose for the types of the arguments.
"""

from __future__ import annotations

from struct import Struct

from devmod import Interface, Param
from devmod.backend import array_bytes, parse_dtype
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devmod import FunctionInfo
    from devmod_targets.nvidia import ParamPlace

#: The bytes and the alignment of a pointer, and of a CUtensorMap.
_POINTER = (8, 8)
_TENSOR_MAP = (128, 64)
#: TVM's tag of an argument that is a tensor map (`FunctionInfo.arg_extra_tags`).
_TENSOR_MAP_TAG = 1
#: The largest alignment of CUDA's vector types.
_MAX_ALIGN = 16


class ParameterLayout:
    """The parameters of a kernel.

    Parameters
    ----------
    places
        The offset and the size of each parameter, in the order of the arguments.
    pointers
        For each parameter, whether it is a pointer: its value is an int, and that of others is bytes.

    Attributes
    ----------
    size : int
        The bytes of the block.
    pack : callable
        Takes the value of each argument, and returns the bytes of the block.
    """

    __slots__ = ("pack", "size")

    pack: Callable[..., bytes]

    def __init__(self, places: Sequence[tuple[int, int]], pointers: Sequence[bool]) -> None:
        # "N" is faster than "Q". It is native, and so aligned to 8 bytes, as pointers are in CUDA's C++.
        is_aligned = all(offset % 8 == 0 for (offset, _), is_pointer in zip(places, pointers, strict=True) if is_pointer)
        order, pointer = ("@", "N") if is_aligned else ("<", "Q")
        end, layout = 0, order
        for (offset, size), is_pointer in zip(places, pointers, strict=True):
            layout += f"{offset - end}x" if offset > end else ""
            layout += pointer if is_pointer else f"{size}s"
            end = offset + size
        self.size = end
        self.pack = Struct(layout).pack


def parameter_layout(info: FunctionInfo, places: Sequence[ParamPlace] | None) -> ParameterLayout:
    """Return the parameter block of a kernel.

    Parameters
    ----------
    info
        The function.
    places
        The parameters in the image; None if they are unknown.

    Raises
    ------
    FormatError
        The image declares other parameters than the function.
    """
    sizes = _declared_sizes(info)
    pointers = [size is _POINTER for size in sizes]
    if places is None:
        return ParameterLayout(_natural_places(sizes), pointers)
    label = f"the cuda kernel {info.name!r}"
    if len(places) != len(sizes):
        raise FormatError(f"{label} takes {len(places)} arguments, and the payload's fmap has {len(sizes)}", kind="cuda")
    end = 0
    for number, (place, (size, _)) in enumerate(zip(places, sizes, strict=True)):
        declared = _type_of(info, number)
        if place.size != size:
            raise FormatError(
                f"{label} takes {place.size} bytes as argument {number + 1}, and the payload's fmap has {declared} of {size} bytes",
                kind="cuda",
            )
        if _is_float(place.type) not in (None, _is_float(declared)):
            raise FormatError(
                f"{label} takes a parameter of PTX's type .{place.type} as argument {number + 1}, and the payload's fmap has {declared}",
                kind="cuda",
            )
        if place.offset < end:
            raise FormatError(f"{label} is damaged: its argument {number + 1} overlaps the one before it", kind="cuda")
        end = place.offset + place.size
    return ParameterLayout([(place.offset, place.size) for place in places], pointers)


def _is_float(type_: str) -> bool | None:
    """Return whether a type of PTX or of a FunctionInfo is a floating-point number; None for PTX's untyped bits."""
    return None if type_ in ("", "b8", "b16", "b32", "b64", "b128") else type_.startswith("f")


def _type_of(info: FunctionInfo, number: int) -> str:
    param = info.interface.params[number] if info.interface is not None else None
    if is_tensor_map(info, number):
        return "a tensor map"
    if param is not None and param.kind != "scalar":
        return f"a {param.kind}"
    return (param.type if param is not None else "") or info.arg_types[number]


def _declared_sizes(info: FunctionInfo) -> list[tuple[int, int]]:
    """Return the bytes and the natural alignment of each argument."""
    sizes = []
    for number, arg_type in enumerate(info.arg_types):
        param = info.interface.params[number] if info.interface is not None else None
        if is_tensor_map(info, number):
            sizes.append(_TENSOR_MAP)
        elif param is not None and param.kind == "local":
            raise FormatError(
                f"the cuda function {info.name!r} has {param.name!r} of kind local, and CUDA kernels take no shared memory as an argument: "
                "declare it in the kernel as extern __shared__, and pass shared_memory=",
                kind="cuda",
                function=info.name,
            )
        elif (param.kind == "buffer") if param is not None else (arg_type == "handle"):
            sizes.append(_POINTER)
        else:
            sizes.append(_scalar_size(param, (param.type if param is not None else "") or arg_type))
    return sizes


def _scalar_size(param: Param | None, dtype: str) -> tuple[int, int]:
    code, bits, lanes = parse_dtype(dtype)
    if param is not None and param.align:
        return lanes, param.align
    size = lanes if (code, bits) == (1, 1) else array_bytes((code, bits, lanes))
    element = size // lanes if lanes else size
    # float3 has the alignment of a float, and float4 of 16 bytes.
    align = element if lanes == 3 else size & -size
    return size, max(1, min(align, _MAX_ALIGN))


def _natural_places(sizes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    end, places = 0, []
    for size, align in sizes:
        offset = -(-end // align) * align
        places.append((offset, size))
        end = offset + size
    return places


def is_tensor_map(info: FunctionInfo, number: int) -> bool:
    """Return whether an argument is a CUtensorMap by value."""
    return number < len(info.arg_extra_tags) and info.arg_extra_tags[number] == _TENSOR_MAP_TAG


def tensor_map_interface(info: FunctionInfo) -> Interface | None:
    """Return the interface of a function with tensor maps, each an argument of 128 bytes by value; None for other functions."""
    if not any(is_tensor_map(info, number) for number in range(len(info.arg_types))):
        return None
    interface = info.interface
    params = []
    for number, arg_type in enumerate(info.arg_types):
        param = interface.params[number] if interface is not None else None
        if is_tensor_map(info, number):
            size, align = _TENSOR_MAP
            param = Param(param.name if param is not None else "", "scalar", f"uint8x{size}", align=align)
        elif param is None:
            param = Param("", "buffer") if arg_type == "handle" else Param("", "scalar", arg_type)
        params.append(param)
    return Interface(params) if interface is None else interface.replace(params=params)
