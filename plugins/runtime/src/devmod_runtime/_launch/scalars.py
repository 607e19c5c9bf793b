"""Scalars by value: Python numbers, sequences of lanes and structs, as the little-endian bytes that
a kernel takes.

`packer` returns the converter of one type. The converter raises `ConversionError`, with the reason,
for a value that the type cannot represent. Floating-point types are rounded to nearest, ties to
even. A finite number beyond the type's finite values is an error, as is an integer out of range.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from devmod._values.dtypes import NUMBERS
from devmod._values.param import element_bytes, struct_dtype
from devmod.backend import (
    STRUCT_FORMATS,
    ConversionError,
    array_bytes,
    describe_value,
    dtype_name,
    is_value,
    numpy_dtype,
    parse_dtype,
)
from devmod.errors import FormatError, did_you_mean, list_names, quote_name
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.host import host_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Self, TypeAlias

    import numpy as np

    from devmod import Member

    Packer = Callable[[Any], bytes]
    #: The offset and the type of each number of a struct.
    Numbers = set[tuple[int, str]]
    _Writer: TypeAlias = "_Number | _Array | _Struct"
else:
    from devmod.backend import np


#: The floating-point types that the struct module does not support: exponent bits, mantissa bits,
#: bias, and the codes of the greatest number, of infinity and of NaN; None without one.
_SMALL = {
    "bfloat16": (8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    "float8_e3m4": (3, 4, 3, 0x6F, 0x70, 0x78),
    "float8_e4m3": (4, 3, 7, 0x77, 0x78, 0x7C),
    "float8_e4m3b11fnuz": (4, 3, 11, 0x7F, None, 0x80),
    "float8_e4m3fn": (4, 3, 7, 0x7E, None, 0x7F),
    "float8_e4m3fnuz": (4, 3, 8, 0x7F, None, 0x80),
    "float8_e5m2": (5, 2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e5m2fnuz": (5, 2, 16, 0x7F, None, 0x80),
    "float6_e2m3fn": (2, 3, 1, 0x1F, None, None),
    "float6_e3m2fn": (3, 2, 3, 0x1F, None, None),
    "float4_e2m1fn": (2, 1, 1, 0x7, None, None),
}


#: DLPack's codes and bits of a bool.
_BOOLS = ((6, 8), (1, 1))


def plain_packer(name: str) -> tuple[type, Packer] | None:
    """Return the exact Python type (int or float) and the converter of a type of plain numbers;
    None for other types.

    The converter raises struct.error or OverflowError for a value out of range. The converter of
    floats accepts ints as well.
    """
    if name not in NUMBERS:
        return None
    char = STRUCT_FORMATS[name]
    pack: Packer = struct.Struct("<" + char).pack
    if char in "efd":
        return float, pack
    return int, _IntCache(pack).__getitem__


class _IntCache(dict[int, bytes]):
    """A cache of the bytes of ints: a look-up takes a third of the time of packing. Floats cannot
    be cached: 0.0 equals -0.0.
    """

    def __init__(self, pack: Packer) -> None:
        self._pack = pack

    def __missing__(self, value: int) -> bytes:
        data = self._pack(value)
        if len(self) < 256:
            self[value] = data
        return data


def packer(name: str, *, bool_bytes: int = 1, vec3_lanes: int = 4, align: int = 0) -> Packer:
    """Return the converter of a type.

    Parameters
    ----------
    name
        The type, such as "int32", "float16x4", or "uint8xN" for a struct of N bytes.
    bool_bytes
        The bytes of one bool: 1 in C-like kinds, 4 in GLSL and WGSL.
    vec3_lanes
        The lanes that a three-vector takes: 4 in OpenCL C and MSL.
    align
        A struct's alignment. If it is more than 0, "uint8x3" is a struct of three bytes and not a
        vector.
    """
    code, bits, lanes = parse_dtype(name)
    is_bytes = code == 1 and bits == 8
    if is_bytes and align:
        return lambda value: _bytes_of(value, name, lanes)
    if lanes == 1:
        return _packer_of_one(name, code, bits, bool_bytes)
    one = _packer_of_one(dtype_name((code, bits, 1)), code, bits, bool_bytes)
    width = (bits + 7) // 8
    if (code, bits) in _BOOLS:
        width = bool_bytes
    nbytes = lanes * width
    padding = b""
    if lanes == 3:
        padding = bytes(width * (vec3_lanes - 3))

    def pack(value: Any) -> bytes:
        if is_bytes:
            if isinstance(value, (bytes, bytearray, memoryview)) or _kind(value) == "V":
                return _bytes_of(value, name, nbytes) + padding
        elif _kind(value) == "V":
            return _bytes_of(value, name, nbytes + len(padding))
        return _pack_lanes(value, name, lanes, one) + padding

    return pack


def _packer_of_one(name: str, code: int, bits: int, bool_bytes: int) -> Packer:
    if (code, bits) in _BOOLS:
        return lambda value: _pack_bool(value, bool_bytes)
    char = STRUCT_FORMATS.get(name, "")
    if code in (0, 1) and char:
        return lambda value: _pack_int(value, name, bits, code == 0)
    if code == 2 and char:
        return lambda value: _pack_float(value, name, char)
    if code == 5 and bits in (64, 128):
        return lambda value: _pack_complex(value, name, char[1:])
    if name in _SMALL:
        return lambda value: _pack_small(value, name)
    if name == "float8_e8m0fnu":
        return lambda value: _pack_exponent(value, name)

    def refuse(value: Any) -> bytes:
        raise ConversionError(
            f"{describe_value(value)} cannot be passed: type {name} is not supported for a value"
        )

    return refuse


def _not_fitting(number: object, name: str) -> ConversionError:
    """Return the error for a number that is out of the range of a type."""
    return ConversionError(f"{number!r} does not fit {name}")


def _pack_bool(value: Any, width: int) -> bytes:
    if type(value) is bool or _kind(value) == "b" or (type(value) is int and value in (0, 1)):
        return int(bool(value)).to_bytes(width, "little")
    raise ConversionError(f"{describe_value(value)} is not a bool")


def _pack_int(value: Any, name: str, bits: int, signed: bool) -> bytes:
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        raise ConversionError(explain_not_int(value, name)) from None
    low = 0
    high = (1 << bits) - 1
    if signed:
        low = -(1 << bits - 1)
        high = (1 << bits - 1) - 1
    if not low <= number <= high:
        raise ConversionError(f"{number} does not fit {name} ({low} to {high})")
    return number.to_bytes(bits // 8, "little", signed=signed)


def _pack_float(value: Any, name: str, char: str) -> bytes:
    number = real(value)
    try:
        return struct.pack("<" + char, number)
    except OverflowError:
        raise _not_fitting(number, name) from None


def _pack_complex(value: Any, name: str, char: str) -> bytes:
    if isinstance(value, complex) or _kind(value) == "c":
        number = complex(value)
    else:
        number = complex(real(value), 0.0)
    try:
        return struct.pack(f"<{char}{char}", number.real, number.imag)
    except OverflowError:
        raise _not_fitting(number, name) from None


def _pack_small(value: Any, name: str) -> bytes:
    exponent_bits, mantissa_bits, bias, greatest, infinity, nan = _SMALL[name]
    number = real(value)
    body = exponent_bits + mantissa_bits
    sign = 0
    if math.copysign(1.0, number) < 0:
        sign = 1 << body
    code: int | None
    if math.isnan(number):
        code = nan
        sign = 0
    elif math.isinf(number):
        code = infinity
    else:
        size = abs(number)
        # The exponent, but not below that of the subnormal numbers. Scaling by a power of two is
        # exact, and round() is to even.
        exponent = 1 - bias
        if size:
            exponent = max(math.frexp(size)[1] - 1, exponent)
        steps = round(math.ldexp(size, mantissa_bits - exponent))
        code = steps + (exponent + bias - 1 << mantissa_bits)
        if code > greatest:
            code = None
    if code is None:
        raise _not_fitting(number, name)
    if not code and nan == 1 << body:  # there is no negative zero
        sign = 0
    return (code | sign).to_bytes((body + 8) // 8, "little")


def _pack_exponent(value: Any, name: str) -> bytes:
    """Pack a float8_e8m0fnu: a power of two from 2**-127 to 2**127."""
    number = real(value)
    if math.isnan(number):
        return b"\xff"
    if math.isinf(number) or number <= 0:
        raise _not_fitting(number, name)
    # number is mantissa * 2 ** exponent, 0.5 <= mantissa < 1
    mantissa, exponent = math.frexp(number)
    code = exponent - 1 + 127
    if mantissa > 0.75 or (mantissa == 0.75 and code % 2):
        code += 1
    if not 0 <= code <= 254:
        raise _not_fitting(number, name)
    return bytes((code,))


def _pack_lanes(value: Any, name: str, lanes: int, one: Packer) -> bytes:
    if isinstance(value, (str, bytes, bytearray, dict, set, frozenset)) or not hasattr(
        value, "__len__"
    ):
        raise ConversionError(f"{describe_value(value)} is not a sequence of {lanes} lanes")
    items = list(value)
    description = ""
    if getattr(value, "ndim", 1) != 1:
        description = f"an array of shape {tuple(value.shape)}"
    elif len(items) != lanes:
        description = f"{len(items)} lanes"
    if description:
        raise ConversionError(f"{description} cannot be passed as {name}, which has {lanes} lanes")
    parts = []
    for number, item in enumerate(items):
        try:
            parts.append(one(item))
        except ConversionError as error:
            raise ConversionError(f"lane {number}: {error}") from None
    return b"".join(parts)


def _bytes_of(value: Any, name: str, size: int) -> bytes:
    """Return the bytes of a struct given as bytes or as an object with a buffer (NumPy's void, a
    ctypes.Structure).
    """
    try:
        return struct_bytes(value, name, size)
    except TypeError:
        raise ConversionError(
            f"{describe_value(value)} is not a struct of {size} bytes; pass bytes, or a NumPy record of that size"
        ) from None


def struct_bytes(value: Any, name: str, size: int) -> bytes:
    """Return the bytes of an object with a buffer of `size` bytes, for the type `name`. Raise
    TypeError if it has no buffer.
    """
    try:
        view = memoryview(value)
    except (ValueError, BufferError) as error:  # an array of dates, a released view
        raise ConversionError(
            f"the memory of this {type(value).__name__} cannot be read: {error}"
        ) from None
    if ">" in view.format:
        raise ConversionError(
            f"{describe_value(value)} has big-endian numbers, and {name} is little-endian"
        )
    if view.nbytes != size:
        raise ConversionError(
            f"{type(value).__name__} of {view.nbytes} bytes cannot be passed as {name}, which has {size} bytes"
        )
    if isinstance(value, bytes):
        return value
    return view.tobytes()


def real(value: Any) -> float:
    """Convert a real number to a float: Python's numbers, NumPy's scalars and arrays without
    dimensions, fractions, decimals.
    """
    if (
        not isinstance(value, (str, bytes, bytearray))
        and getattr(value, "ndim", 0) == 0
        and _kind(value) != "c"
    ):
        convert = getattr(type(value), "__float__", None) or getattr(type(value), "__index__", None)
        if convert is not None and not isinstance(value, complex):
            try:
                return float(convert(value))
            except OverflowError:
                raise ConversionError(
                    f"{describe_value(value)} does not fit a floating-point type"
                ) from None
            except (TypeError, ValueError):
                pass
    raise ConversionError(f"{describe_value(value)} is not a number")


def explain_not_int(value: Any, expected: str) -> str:
    """Return the reason why a value is not an int, and the int to pass if there is one."""
    if hasattr(value, "is_integer") and getattr(value, "ndim", 0) == 0 and value.is_integer():
        return f"{describe_value(float(value))} is a float, and {expected} takes an int; pass {int(value)}"
    return f"{describe_value(value)} is not a whole number"


def _kind(value: object) -> str:
    """Return NumPy's letter for the kind of a scalar; "" for other objects."""
    if getattr(value, "ndim", 1) != 0:
        return ""
    dtype = getattr(value, "dtype", None)
    return str(getattr(dtype, "kind", ""))


# -- Structs by value: NumPy records, mappings, tuples and bytes, as the bytes of the layout that
# the kernel declares.
#
# `struct_packer` returns the converter of one argument. A `ConversionError` names the member.
# Padding is zero, except in a value of bytes, which is passed unchanged. `BufferLayout` compares a
# NumPy array of structs with the layout.


def struct_packer(name: str, members: Sequence[Member], nbytes: int) -> Packer:
    """Return the converter of an argument with these members.

    Parameters
    ----------
    name
        The argument's name, with which the members' names in errors begin.
    members, nbytes
        The members, which `devmod.Param` has checked, and the size of the struct.
    """
    type_name = f"uint8x{nbytes}"
    whole: _Writer = _Struct(members, nbytes)
    if is_value(members):
        whole = _element(members[0])

    def pack(value: Any) -> bytes:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return struct_bytes(value, type_name, nbytes)
        data = _Content(nbytes)
        try:
            whole.write(value, name, data, 0)
        except ConversionError as error:
            raise StructError(name, data.path, str(error)) from None
        if data.arrays:
            return AddressBytes(data, name, data.arrays)
        return bytes(data)

    return pack


def _element(member: Member) -> _Writer:
    """Return the writer of a member, with an `_Array` for each dimension."""
    writer: _Writer
    if member.members:
        writer = _Struct(member.members, member.size)
    elif member.type == "handle":
        writer = _Address(member)
    else:
        writer = _Number(member)
    size = element_bytes(member)
    for count, stride in zip(reversed(member.shape), reversed(member.strides), strict=True):
        writer = _Array(
            writer, count, stride, accepts_bytes=member.type in ("uint8", "int8") and stride == size
        )
    return writer


class AddressBytes(bytes):
    """The bytes of a struct with addresses of device arrays.

    Attributes
    ----------
    name : str
        The struct.
    arrays : list of (str, DeviceArray)
        Each array, with the member that is its address. The bytes keep the arrays alive.
    """

    name: str
    arrays: Sequence[tuple[str, DeviceArray]]

    def __new__(
        cls, data: bytes | bytearray, name: str, arrays: Sequence[tuple[str, DeviceArray]]
    ) -> Self:
        self = super().__new__(cls, data)
        self.name = name
        self.arrays = arrays
        return self


class _Content(bytearray):
    """The bytes of a struct while its members are written, the arrays whose addresses it has, and
    the member that is written, for errors.
    """

    __slots__ = ("arrays", "path")
    path: str

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes)
        self.arrays: list[tuple[str, DeviceArray]] = []


class StructError(ConversionError):
    """A value cannot be passed as a struct.

    Parameters
    ----------
    name, path
        The struct, and the member of it with its path from there, as in ``p.parts[1].n``; equal if
        no member is the reason.
    text
        The reason.
    """

    def __init__(self, name: str, path: str, text: str) -> None:
        path = path.removeprefix(".")  # of an argument without a name
        message = text
        if path != name:
            message = f"member {quote_name(path)}: {text}"
        super().__init__(message)
        self.name = name
        self.path = path
        self.text = text


class _Number:
    """The writer of a number or a vector into the memory of a struct.

    `write` writes a value at the byte `at`. `path` is the member's place in the argument, which
    `data` gets. ConversionError if the type cannot represent the value.
    """

    def __init__(self, member: Member) -> None:
        self._size = element_bytes(member)
        self._pack = packer("uint64" if member.type == "handle" else member.type)
        self._three = member.type.endswith("x3")

    def write(self, value: Any, path: str, data: _Content, at: int) -> None:
        data.path = path
        # The dtype of an array of three-vectors may have a fourth lane, which is padding.
        if self._three and getattr(value, "shape", None) == (4,):
            value = value[:3]
        data[at : at + self._size] = self._pack(value)[: self._size]


class _Address(_Number):
    """The writer of the address of a device array."""

    def write(self, value: Any, path: str, data: _Content, at: int) -> None:
        data.path = path
        number = address_number(value)
        if number is None:
            number = value.device.address(value.region)
            data.arrays.append((path, value))
        super().write(number, path, data, at)


def address_number(value: Any) -> int | None:
    """Return an address that is given as an int; None for a device array.

    Raises
    ------
    ConversionError
        The value is neither. The text ends a sentence that begins with the argument.
    """
    if isinstance(value, DeviceArray):
        return None
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        advice = ""
        if host_view(value) is not None:
            advice = "; pass device.from_numpy(array)"
        raise ConversionError(
            f"is {describe_value(value)}, and the kernel takes the address of a device array{advice}"
        ) from None
    if not 0 <= number < 1 << 64:
        raise ConversionError(f"is {number}, and an address is from 0 to 2**64 - 1")
    return number


class _Array:
    """An array: its elements, from the start of one to the start of the next `stride` bytes."""

    def __init__(self, element: _Writer, count: int, stride: int, *, accepts_bytes: bool) -> None:
        self._element = element
        self._count = count
        self._stride = stride
        self._accepts_bytes = accepts_bytes

    def write(self, value: Any, path: str, data: _Content, at: int) -> None:
        if (
            self._accepts_bytes
            and isinstance(value, (bytes, bytearray))
            and len(value) == self._count
        ):
            data[at : at + self._count] = value
            return
        data.path = path
        unordered = isinstance(value, (str, bytes, bytearray, Mapping, set, frozenset))
        if unordered or not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0:
            raise ConversionError(
                f"{describe_value(value)} is not a sequence of {self._count} elements"
            )
        if len(value) != self._count:
            raise ConversionError(f"expected {self._count} elements, got {len(value)}")
        for number, item in enumerate(value):
            names = getattr(getattr(item, "dtype", None), "names", None)
            # The dtype of an array with padding between its elements.
            if names == ("value",) and not isinstance(self._element, _Struct):
                item = item["value"]
            self._element.write(item, f"{path}[{number}]", data, at + number * self._stride)


class _Struct:
    """A struct of `nbytes` bytes."""

    def __init__(self, members: Sequence[Member], nbytes: int) -> None:
        self._nbytes = nbytes
        #: With a member's end of its path.
        self._members = [(f".{member.name}", member.offset, _element(member)) for member in members]
        self._names = [member.name for member in members]
        self._known = frozenset(self._names)
        self._declared = members
        #: The dtype of the declared layout with the bits of its members, after the first record.
        self._layout: tuple[Any, int] | None = None

    def write(self, value: Any, path: str, data: _Content, at: int) -> None:
        data.path = path
        dtype = getattr(value, "dtype", None)
        if isinstance(value, Mapping):
            values = self._by_name(value, value.keys(), data)
        elif getattr(dtype, "names", None):
            if value.ndim:
                raise ConversionError(
                    f"{describe_value(value)} is not one struct; pass one record, such as array[0]"
                )
            if self._is_declared(dtype):
                assert self._layout is not None
                bits = int.from_bytes(value.tobytes(), "little") & self._layout[1]
                data[at : at + self._nbytes] = bits.to_bytes(self._nbytes, "little")
                return
            record = value[()]
            values = self._by_name(record, record.dtype.names, data)
        elif isinstance(value, tuple):
            if len(value) != len(self._names):
                raise ConversionError(
                    f"expected {len(self._names)} values ({list_names(self._names)}), got {len(value)}"
                )
            values = list(value)
        else:
            try:
                data[at : at + self._nbytes] = struct_bytes(
                    value, f"uint8x{self._nbytes}", self._nbytes
                )
            except TypeError:
                raise ConversionError(
                    f"{describe_value(value)} is not a struct of {self._nbytes} bytes; pass a mapping, a tuple or a NumPy record of "
                    f"{list_names(self._names)}, or bytes"
                ) from None
            return
        for (end, offset, writer), item in zip(self._members, values, strict=True):
            writer.write(item, path + end, data, at + offset)

    def _by_name(self, value: Any, names: Any, data: _Content) -> list[Any]:
        if "" in self._names:
            raise ConversionError(
                "the struct has members without names; pass a tuple of its values, or bytes"
            )
        for name in names:
            if not isinstance(name, str) or name not in self._known:
                hint = ""
                if isinstance(name, str):
                    hint = did_you_mean(name, self._names)
                data.path += f".{name}"
                raise ConversionError(f"unknown; expected {list_names(self._names)}{hint}")
        for name in self._names:
            if name not in names:
                data.path += f".{name}"
                raise ConversionError(f"missing; expected {list_names(self._names)}")
        return [value[name] for name in self._names]

    def _is_declared(self, dtype: Any) -> bool:
        """Return whether a record's dtype has the declared layout: it is the same dtype, or has
        other names and the same numbers.
        """
        if dtype.itemsize != self._nbytes:
            return False
        if self._layout is None:
            try:
                declared = struct_dtype(self._declared, self._nbytes)
            except FormatError:
                return False
            mask = bytearray(self._nbytes)
            for _, start, type_ in _places(self._declared, "", 0):
                size = array_bytes(parse_dtype(type_))
                mask[start : start + size] = b"\xff" * size
            self._layout = (declared, int.from_bytes(mask, "little"))
        declared = self._layout[0]
        return bool(declared == dtype) or (
            set(declared.names or ()) != set(dtype.names) and _numbers(declared) == _numbers(dtype)
        )


class BufferLayout:
    """The layout of the structs in a buffer.

    Parameters
    ----------
    name, members
        The argument's name, and the members, which `devmod.Param` has checked.
    """

    def __init__(self, name: str, members: Sequence[Member]) -> None:
        self._name = name
        self._members = members
        self._accepted: Any = None  # the last dtype with this layout

    def check(self, dtype: Any, number: int) -> None:
        """Raise ConversionError if `dtype`, of the array for argument `number`, is a NumPy dtype
        with fields and another layout.

        Numbers in the padding are accepted, and any field where a member is bytes: a union or a
        pointer has no other type. Members without a field are accepted too: a view of some fields
        of an array has the memory of all.
        """
        if dtype is self._accepted or not getattr(dtype, "names", None):
            return
        problem = _moved(self._members, dtype, self._name, 0) or self._difference(dtype)
        if problem:
            raise ConversionError(
                f"is an array of structs with another layout: {problem}. The dtype is function.info.interface.params[{number}].dtype"
            )
        self._accepted = dtype

    def _difference(self, dtype: Any) -> str:
        numbers = _numbers(dtype)
        #: The type of the number at each byte.
        texts: dict[int, str] = {}
        for at, text in numbers:
            if text[:2] != "|V":
                texts |= dict.fromkeys(range(at, at + np.dtype(text).itemsize), text)
        for path, offset, type_ in _places(self._members, self._name, 0):
            if type_ == "uint8":  # bytes of a union, or of a pointer
                continue
            try:
                expected = numpy_dtype(type_)
            except FormatError:
                continue
            place = range(offset, offset + expected.itemsize)
            found = [texts[byte] for byte in place if byte in texts]
            if found and (offset, expected.str) not in numbers:
                return f"member {quote_name(path)} is {type_} at byte {offset}, where the array has {np.dtype(found[0]).name}"
        return ""


def _moved(members: Sequence[Member], dtype: Any, path: str, at: int) -> str:
    """Return the first member that has the name of a field at another byte; "" if there is none."""
    for member in members:
        inner, offset = dtype.fields.get(member.name, (None, member.offset))[:2]
        name = _join(path, member.name)
        if offset != member.offset:
            return f"member {quote_name(name)} is at byte {at + member.offset}, and the field of the array at byte {at + offset}"
        if member.members and inner is not None and inner.base.names:
            text = _moved(member.members, inner.base, name, at + offset)
            if text:
                return text
    return ""


def _places(members: Sequence[Member], path: str, at: int) -> Iterator[tuple[str, int, str]]:
    """Yield the name, the offset and the type of each number in a struct."""
    for member in members:
        places = [(_join(path, member.name), at + member.offset)]
        code, bits, lanes = parse_dtype(member.type or "uint8")
        for count, stride in zip(member.shape, member.strides, strict=True):
            places = [
                (f"{name}[{index}]", start + index * stride)
                for name, start in places
                for index in range(count)
            ]
        for name, start in places:
            if member.members:
                yield from _places(member.members, name, start)
            else:
                base = (code, bits, 1)
                for lane in range(lanes):
                    yield name, start + lane * array_bytes(base), dtype_name(base)


def _numbers(dtype: Any, at: int = 0) -> Numbers:
    """Return the offset and the type of each number in a dtype. A complex number is two."""
    if dtype.subdtype is not None:
        base = dtype.base
        count = dtype.itemsize // max(base.itemsize, 1)
        numbers: Numbers = set()
        for number in range(count):
            numbers |= _numbers(base, at + number * base.itemsize)
        return numbers
    if dtype.kind == "c":
        size = dtype.itemsize // 2
        return {(at, f"<f{size}"), (at + size, f"<f{size}")}
    if dtype.names is None:
        return {(at, dtype.str)}
    fields: Numbers = set()
    for name in dtype.names:
        fields |= _numbers(dtype[name], at + dtype.fields[name][1])
    return fields


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
