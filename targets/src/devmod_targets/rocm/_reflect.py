"""Read the signatures of the kernels of a HIP source with libclang, and compare them with the code object."""

from __future__ import annotations

import os

from devmod.backend import array_bytes, parse_dtype
from devmod.errors import CompileError
from devmod.targets.rocm import SPEC
from devmod_readers.reflection import ReflectedFunction
from devmod_targets._text import header_files
from devmod_targets.authoring._declared import argument_bytes
from devmod_targets.authoring._open_block import open_kernels
from devmod_targets.authoring.c_functions import CFunctions
from devmod_targets.authoring.clang import VIRTUAL_FOLDER, element_type, type_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod_readers.amdgpu import CodeObjectKernel
    from devmod_targets.authoring import CompileRequest
    from devmod_targets.authoring.clang_build import ClangOptions

_RECORD = 105
_ELEMENTS = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "float": "float32",
    "double": "float64",
}
#: The vectors of HIP's headers. Those of three elements have no padding.
_VECTORS = {f"{name}{lanes}": f"{dtype}x{lanes}" for name, dtype in _ELEMENTS.items() for lanes in (2, 3, 4)}
_VECTORS |= {f"{name}1": dtype for name, dtype in _ELEMENTS.items()} | {"__half2": "float16x2"}


def read_kernels(
    request: CompileRequest, options: ClangOptions, kernels: Mapping[str, CodeObjectKernel]
) -> tuple[dict[str, ReflectedFunction], str, dict[str, str]]:
    """Read the kernels of a source.

    Parameters
    ----------
    request, options
        The source, and the arguments with which clang compiled it.
    kernels
        The kernels of the code object.

    Returns
    -------
    dict of str to ReflectedFunction
        The kernels by name, in the order of the source, then those of name_expressions.
    str
        The reader, such as "libclang 18.1.1".
    dict of str to str
        The files that libclang read, as in `Payload.files`.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        A kernel has a parameter that devmod does not support, or contradicts the code object.
    """
    flags = ["-x", "hip", "--cuda-device-only", "--offload-arch=gfx1030", "-nogpuinc", "-nogpulib", "-fdeclspec", "-include"]
    flags.append(os.path.join(VIRTUAL_FOLDER, "devmod_hip.h"))
    open_names = open_kernels(request.text)
    source = CFunctions(
        SPEC,
        "kernel",
        request,
        options,
        kernels,
        flags=flags,
        prefixes=("-std=", "-U", "-f"),
        headers=header_files(__package__),
        number_type=_value_type,
        pointee_type=_pointee_type,
    )
    functions = {}
    for name, (symbol, cursor) in source.functions_by_name().items():
        types, params = source.parameters(cursor)
        location, block = source.location(cursor), kernels[symbol].block
        _check_places(name, location, types, kernels[symbol])
        is_open = cursor.spelling in open_names and block is None
        functions[name] = ReflectedFunction(symbol, types, params, block, location, open_block=is_open)
    return functions, source.toolchain, source.files


def _value_type(type_: Any) -> tuple[str, int]:
    """Return the same as `element_type`, with the vectors of HIP's headers, which are structs there."""
    dtype = _VECTORS.get(_record_name(type_), "")
    return (dtype, 0) if dtype and type_.get_size() == array_bytes(parse_dtype(dtype)) else element_type(type_)


def _pointee_type(type_: Any) -> tuple[str, int]:
    """Return the same for a pointer's elements. Vectors of three have no padding, so the elements of their memory are scalars."""
    scalar = _ELEMENTS.get(_record_name(type_).removesuffix("3"), "")
    is_three = scalar and type_.get_size() == 3 * array_bytes(parse_dtype(scalar))
    return (scalar, 0) if is_three else _value_type(type_)


def _record_name(type_: Any) -> str:
    name: str = type_.spelling.removeprefix("const ").removeprefix("volatile ")
    return name if type_kind(type_) == _RECORD else ""


def _check_places(name: str, location: str, types: Sequence[str], kernel: CodeObjectKernel) -> None:
    """Raise CompileError if the sizes of the arguments are not those of the code object."""
    sizes = [argument_bytes(each) for each in types]
    actual = [each.size for each in kernel.visible_arguments]
    if sizes != actual:
        raise CompileError(
            f"{location}: the arguments of the kernel {name!r} have {sizes} bytes in the source and {actual} in the code object. Declare "
            "the kernel: devmod.compile(..., fmap={name: devmod.FunctionInfo(name, arg_types)})",
            kind="rocm",
            function=name,
        )
