"""The parameters of CUDA's kernels: tensor maps, and the types that PTX has."""

from __future__ import annotations

from devmod import Interface, Param
from devmod_readers.nvidia import TENSOR_MAP_BYTES, TENSOR_MAP_TAG
from devmod_runtime.driver_api.parameters import Argument, ParameterLayout, Place, declared_arguments
from devmod_runtime.driver_api.parameters import parameter_layout as make_layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import FunctionInfo
    from devmod_readers.nvidia import ParamPlace

#: The bytes and the alignment of a CUtensorMap.
_TENSOR_MAP = (TENSOR_MAP_BYTES, 64)


def parameter_layout(info: FunctionInfo, params: Sequence[ParamPlace] | None) -> ParameterLayout:
    """Return the parameter block of a kernel.

    Parameters
    ----------
    info
        The function.
    params
        The parameters in the image; None if they are unknown.

    Raises
    ------
    FormatError
        The image declares other parameters than the function.
    """
    arguments = declared_arguments("cuda", "CUDA", info, lambda number: _tensor_map_argument(info, number))
    places = None if params is None else [Place(each.offset, each.size) for each in params]

    def find_problem(number: int) -> str:
        assert params is not None
        actual = params[number].type
        return f"a parameter of PTX's type .{actual}" if _is_float(actual) not in (None, _is_float(arguments[number].title)) else ""

    return make_layout("cuda", info, arguments, places, find_problem)


def _is_float(type_: str) -> bool | None:
    """Return whether a type of PTX or of a FunctionInfo is a floating-point number; None for PTX's untyped bits."""
    return None if type_ in ("", "b8", "b16", "b32", "b64", "b128") else type_.startswith("f")


def _tensor_map_argument(info: FunctionInfo, number: int) -> Argument | None:
    return Argument("a tensor map", *_TENSOR_MAP) if is_tensor_map(info, number) else None


def is_tensor_map(info: FunctionInfo, number: int) -> bool:
    """Return whether an argument is a CUtensorMap by value."""
    return number < len(info.arg_extra_tags) and info.arg_extra_tags[number] == TENSOR_MAP_TAG


def tensor_map_numbers(info: FunctionInfo) -> tuple[int, ...]:
    """Return the numbers of the arguments that have the size of a tensor map, by TVM's tag or by their type."""
    params = info.interface.params if info.interface is not None else ()
    by_type = {number for number, param in enumerate(params) if param.type == f"uint8x{_TENSOR_MAP[0]}"}
    return tuple(number for number in range(len(info.arg_types)) if number in by_type or is_tensor_map(info, number))


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
