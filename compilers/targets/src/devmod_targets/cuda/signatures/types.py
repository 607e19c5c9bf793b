"""The types of CUDA C++ in devmod, from libclang's types and from mangled names."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from devmod import Param
from devmod.backend import array_bytes, parse_dtype
from devmod_readers.c_numbers import bytes_type
from devmod_readers.nvidia import TENSOR_MAP_BYTES, ParamPlace
from devmod_targets.authoring._declared import argument_bytes
from devmod_targets.authoring._mangled import BUILTINS, TypeNode
from devmod_targets.authoring.c_functions import uses_location, with_struct
from devmod_targets.authoring.clang import (
    ARRAYS,
    ENUM,
    FIXED_ARRAY,
    POINTERS,
    RECORD,
    REFERENCES,
    VECTOR_ELEMENTS,
    LocationSet,
    element_type,
    lane_type,
    type_kind,
)

_FUNCTIONS = (110, 111)  # without and with a prototype
_INCOMPLETE = -2
#: The types that `element_type` does not name: char16_t, char32_t, wchar_t, and long double, which
#: is a double on the device.
_OTHER_TYPES = {6: "uint16", 7: "uint32", 15: "int32", 23: "float64"}
_QUALIFIERS = re.compile(r"\b(?:const|volatile) ")
_INLINE = re.compile(r"\bcuda::std::__\w+::")
_COMPLEX = {"cuda::std::complex<float>": "complex64", "cuda::std::complex<double>": "complex128"}
_BUILTINS = dict(BUILTINS.values()) | {
    "_Complex float": "complex64",
    "_Complex double": "complex128",
}

#: The names of a tensor map's struct: that of cuda.h, and that of programs which declare it
#: themselves, as NVRTC does not compile CUDA's cuda.h.
TENSOR_MAPS = ("CUtensorMap_st", "CUtensorMap")


def without_inline(name: str) -> str:
    """Return a name without the inline namespaces of CCCL, which compilers' symbols have and the
    stubs of its headers lack.
    """
    return _INLINE.sub("cuda::std::", name)


class Argument(NamedTuple):
    """One argument of a kernel.

    Parameters
    ----------
    type
        Its type for arg_types; "" if it is unknown.
    param
        Its param.
    type_name
        The name of the class or enum by value or behind the pointer, as mangled names contain it;
        "" for other types.
    """

    type: str
    param: Param
    type_name: str = ""

    @property
    def is_tensor_map(self) -> bool:
        """Whether it is a descriptor of a tensor map by value."""
        return self.type == f"uint8x{TENSOR_MAP_BYTES}" and self.type_name in TENSOR_MAPS

    def agrees(self, other: Argument) -> bool:
        """Return whether `other`, which has no sizes of structs and values of enums, has the same
        type.
        """
        if not self.type or self.param.kind != other.param.kind:
            return False
        if self.param.access != other.param.access:
            return False
        if self.type_name or other.type_name:
            return self.type_name == other.type_name
        return self.type == other.type and self.param.type == other.param.type

    @property
    def size(self) -> int:
        """Its bytes in the parameter block; 0 if they are unknown."""
        return argument_bytes(self.type)

    def without_type(self) -> Argument:
        """Return it with its name alone."""
        return Argument("", Param(self.param.name, "scalar"))

    def replace(self, param: Param) -> Argument:
        """Return it with another param."""
        return Argument(self.type, param, self.type_name)


def bytes_argument(place: ParamPlace, name: str = "") -> Argument:
    """Return the argument of a struct of which the binary has the bytes alone."""
    dtype = bytes_type(place.size)
    return Argument(dtype, Param(name, "scalar", dtype, align=place.align or 1))


def cuda_element_type(type_: Any) -> tuple[str, int]:
    """Return the same as `element_type`, with the types of CUDA's headers. A pointer has the type
    of its address.
    """
    kind = type_kind(type_)
    if kind == RECORD:
        dtype = _named_record(type_)
        if dtype:
            return dtype, 0
    if kind in POINTERS:
        return "uint64", 0
    if kind in _OTHER_TYPES:
        return _OTHER_TYPES[kind], 0
    return element_type(type_)


def _named_record(type_: Any) -> str:
    """Return the type of devmod for a struct of CUDA's headers; "" for a struct of the program,
    also one with such a name.
    """
    dtype = _named(_QUALIFIERS.sub("", type_.spelling))
    # An instance of a template that only a pointer uses has no layout.
    if dtype and type_.get_size() in (array_bytes(parse_dtype(dtype)), _INCOMPLETE):
        return dtype
    return ""


def incomplete_name(type_: Any) -> str:
    """Return the name of the struct behind a pointer if libclang has not laid it out; "" for other
    types.
    """
    type_ = type_.get_canonical()
    if type_kind(type_) not in POINTERS:
        return ""
    target = type_.get_pointee().get_canonical()
    if type_kind(target) != RECORD or target.get_size() != _INCOMPLETE:
        return ""
    name: str = target.spelling
    return name.removeprefix("const ").removeprefix("volatile ")


def _named(name: str) -> str:
    name = without_inline(name)
    return DTYPES.get(name) or _COMPLEX.get(name, "")


def clang_argument(
    argument: Any, name: str, unknown: LocationSet, is_certain: bool, known: dict[str, Argument]
) -> Argument:
    """Return the argument that a parameter declares.

    Parameters
    ----------
    argument
        The cursor of the parameter.
    name
        Its name.
    unknown
        The places of errors. A type that is declared at one of them is unknown.
    is_certain
        Whether the conditions of the preprocessor are the compiler's. If not, the structs are
        unknown.
    known
        The arguments of the same program by type, which this function extends.
    """
    if unknown and unknown.intersects(argument.extent):
        return Argument("", Param(name, "scalar"))
    type_ = argument.type.get_canonical()
    key = type_.spelling
    result = known.get(key)
    if result is None:
        result = _clang_argument(type_, unknown, is_certain)
        # A type without a name has its place in parentheses, which a macro repeats.
        if "(" not in key:
            known[key] = result
    return result.replace(result.param.replace(name=name))


def _clang_argument(type_: Any, unknown: LocationSet, is_certain: bool) -> Argument:
    """Return the argument of a canonical type, without its name."""
    kind = type_kind(type_)
    if kind in ARRAYS:
        return _clang_pointer(kind, type_, unknown, is_certain)
    if kind in POINTERS:
        return _clang_pointer(kind, type_.get_pointee().get_canonical(), unknown, is_certain)
    type_name = _type_name(type_)
    if type_name and not _is_known(type_, unknown, is_certain):
        return Argument("", Param("", "scalar"), type_name)
    element, align = cuda_element_type(type_)
    if not element:
        size = type_.get_size()
        align = type_.get_align()
        if size > 1:
            element = f"uint8x{size}"
    param = Param("", "scalar", element, align=align)
    return Argument(element, with_struct(param, type_, cuda_element_type), type_name)


def _clang_pointer(kind: int, target: Any, unknown: LocationSet, is_certain: bool) -> Argument:
    """Return the argument of a pointer, a reference or an array. `target` is the type behind it, or
    the array's own.
    """
    if type_kind(target) in _FUNCTIONS:
        return Argument("uint64", Param("", "scalar", "uint64"))
    size = 0
    # The declared length of ``int x[16]``, or the object of a reference, is the memory that the
    # kernel requires.
    if kind in REFERENCES or kind == FIXED_ARRAY:
        size = target.get_size()
    const = target.is_const_qualified()
    while type_kind(target) in ARRAYS:
        target = lane_type(target)
    type_name = _type_name(target)
    if type_name and not _is_known(target, unknown, is_certain):
        return Argument("handle", buffer_param("", "", const), type_name)
    element, align = cuda_element_type(target)
    param = buffer_param("", element, const, align, max(size, 0))
    return Argument("handle", with_struct(param, target, cuda_element_type), type_name)


def _type_name(type_: Any) -> str:
    """Return the name of a class or enum that devmod has no type for; "" for other types."""
    if type_kind(type_) not in (RECORD, ENUM) or _named_record(type_):
        return ""
    return _QUALIFIERS.sub("", type_.spelling)


def _is_known(type_: Any, unknown: LocationSet, is_certain: bool) -> bool:
    return is_certain and not uses_location(type_, unknown)


def mangled_argument(name: str, node: TypeNode) -> Argument:
    """Return the argument for a type of a mangled name. The sizes of structs are unknown."""
    if node.kind in ("pointer", "reference"):
        target = node.target
        assert target is not None
        const = target.const
        while target.kind == "array" and target.target is not None:
            target = target.target
            const = const or target.const
        if target.kind == "function":
            return Argument("uint64", Param(name, "scalar", "uint64"))
        return Argument("handle", buffer_param(name, _node_type(target), const), _node_name(target))
    dtype = _node_type(node)
    return Argument(dtype, Param(name, "scalar", dtype), _node_name(node))


def _node_name(node: TypeNode) -> str:
    if node.kind != "name" or _named(node.text):
        return ""
    return without_inline(node.text)


def _node_type(node: TypeNode) -> str:
    if node.kind in ("pointer", "reference"):
        return "uint64"
    if node.kind == "builtin":
        return _BUILTINS.get(node.text, "")
    return _named(node.text)


def buffer_param(name: str, element: str, is_const: bool, align: int = 0, size: int = 0) -> Param:
    """Return the param of a pointer. Three-vectors have no padding in CUDA, so the elements of
    their memory are scalars.
    """
    if element.endswith("x3") and not align:
        element = element.removesuffix("x3")
    return Param(name, "buffer", element, "r" if is_const else "rw", align=align, size=size)


# -- The types of CUDA's headers: the type of devmod for each. The folders ``predeclared`` and
# ``stubs`` have their layout in C++.
#
# Source: vector_types.h, cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, cuda_fp6.h, cuda_fp4.h and cuda.h of
# CUDA 13.5. A test compares the layouts with NVRTC's.


#: The elements of vectors by the start of their names, and the lanes by the end.
_NUMBERS = {**VECTOR_ELEMENTS, "longlong": "int64", "ulonglong": "uint64"}
_LANES = {"1": "", "2": "x2", "3": "x3", "4": "x4"}
#: The small floats: name in C++ before and after the lanes, type of devmod. A type that devmod has
#: no name for is described as bytes.
_SMALL = (
    ("fp8", "e5m2", "float8_e5m2"),
    ("fp8", "e4m3", "float8_e4m3fn"),
    ("fp8", "e8m0", "float8_e8m0fnu"),
    ("fp8", "ue5m3", "uint8"),
    ("fp6", "e3m2", "uint8"),
    ("fp6", "e2m3", "uint8"),
)
#: The type of devmod of each C++ type, by its name.
DTYPES = {
    "dim3": "uint32x3",
    "__half": "float16",
    "__half2": "float16x2",
    "__nv_bfloat16": "bfloat16",
    "__nv_bfloat162": "bfloat16x2",
    "__nv_fp4_e2m1": "uint8",
    "__nv_fp4x2_e2m1": "uint8",
    "__nv_fp4x4_e2m1": "uint8x2",
}
for _prefix, _dtype in _NUMBERS.items():
    for _end, _lanes in _LANES.items():
        DTYPES[_prefix + _end] = _dtype + _lanes
    if "64" in _dtype:
        DTYPES[f"{_prefix}4_16a"] = f"{_dtype}x4"
        DTYPES[f"{_prefix}4_32a"] = f"{_dtype}x4"
for _width, _name, _dtype in _SMALL:
    for _lanes in ("", "x2", "x4"):
        DTYPES[f"__nv_{_width}{_lanes}_{_name}"] = _dtype + _lanes
