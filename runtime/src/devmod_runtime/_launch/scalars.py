"""Scalars by value: Python numbers, sequences of lanes and structs, as the little-endian bytes that a kernel takes.

`packer` returns the converter of one type. The converter raises `ConversionError`, with the reason, for a value that the type cannot
represent. Floating-point types are rounded to nearest, ties to even. A finite number beyond the type's finite values is an error, as
is an integer out of range.
"""

from __future__ import annotations

import math
import struct

from devmod._values.conversion import describe_value
from devmod._values.dtypes import NUMBERS
from devmod.backend import STRUCT_FORMATS, ConversionError, dtype_name, parse_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Packer = Callable[[Any], bytes]

#: The floating-point types that the struct module does not support: exponent bits, mantissa bits, bias, and the encoding of
#: infinities and NaN. "ieee": the highest exponent; "fn": NaN is all ones, no infinity; "fnuz": NaN is the sign alone, no
#: infinity and no negative zero; "finite": neither.
_SMALL = {
    "bfloat16": (8, 7, 127, "ieee"),
    "float8_e3m4": (3, 4, 3, "ieee"),
    "float8_e4m3": (4, 3, 7, "ieee"),
    "float8_e4m3b11fnuz": (4, 3, 11, "fnuz"),
    "float8_e4m3fn": (4, 3, 7, "fn"),
    "float8_e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e5m2fnuz": (5, 2, 16, "fnuz"),
    "float6_e2m3fn": (2, 3, 1, "finite"),
    "float6_e3m2fn": (3, 2, 3, "finite"),
    "float4_e2m1fn": (2, 1, 1, "finite"),
}


def plain_packer(name: str) -> tuple[type, Packer] | None:
    """Return the exact Python type (int or float) and the converter of a type of plain numbers; None for other types.

    The converter raises struct.error or OverflowError for a value out of range. The converter of floats accepts ints as well.
    """
    if name not in NUMBERS:
        return None
    char = STRUCT_FORMATS[name]
    pack: Packer = struct.Struct("<" + char).pack
    return (float, pack) if char in "efd" else (int, _IntCache(pack).__getitem__)


class _IntCache(dict[int, bytes]):
    """A cache of the bytes of ints: a look-up takes a third of the time of packing. Floats cannot be cached: 0.0 equals -0.0."""

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
        A struct's alignment. If it is more than 0, "uint8x3" is a struct of three bytes and not a vector.
    """
    code, bits, lanes = parse_dtype(name)
    is_bytes = code == 1 and bits == 8
    if is_bytes and align:
        return lambda value: _bytes_of(value, name, lanes)
    if lanes == 1:
        return _packer_of_one(name, code, bits, bool_bytes)
    one = _packer_of_one(dtype_name((code, bits, 1)), code, bits, bool_bytes)
    width = len(_zero(one, code, bits, bool_bytes))
    padding = bytes(width * (vec3_lanes - 3)) if lanes == 3 else b""

    def pack(value: Any) -> bytes:
        if (is_bytes and isinstance(value, (bytes, bytearray, memoryview))) or _is_void(value):
            return _bytes_of(value, name, lanes * width if is_bytes else lanes * width + len(padding)) + (padding if is_bytes else b"")
        return _pack_lanes(value, name, lanes, one) + padding

    return pack


def _packer_of_one(name: str, code: int, bits: int, bool_bytes: int) -> Packer:
    if (code, bits) in ((6, 8), (1, 1)):
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
        raise ConversionError(f"{describe_value(value)} cannot be passed: type {name} is not supported for a value")

    return refuse


def _zero(_: Packer, code: int, bits: int, bool_bytes: int) -> bytes:
    """Return a zero lane."""
    return bytes(bool_bytes if (code, bits) in ((6, 8), (1, 1)) else (bits + 7) // 8)


def _pack_bool(value: Any, width: int) -> bytes:
    if type(value) is bool or _kind(value) == "b" or (type(value) is int and value in (0, 1)):
        return int(bool(value)).to_bytes(width, "little")
    raise ConversionError(f"{describe_value(value)} is not a bool")


def _pack_int(value: Any, name: str, bits: int, signed: bool) -> bytes:
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        raise ConversionError(explain_not_int(value, name)) from None
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise ConversionError(f"{number} does not fit {name} ({low} to {high})")
    return number.to_bytes(bits // 8, "little", signed=signed)


def _pack_float(value: Any, name: str, char: str) -> bytes:
    number = _real(value)
    try:
        return struct.pack("<" + char, number)
    except OverflowError:
        raise ConversionError(f"{number!r} does not fit {name}") from None


def _pack_complex(value: Any, name: str, char: str) -> bytes:
    if isinstance(value, complex) or _kind(value) == "c":
        number = complex(value)
    else:
        number = complex(_real(value), 0.0)
    try:
        return struct.pack(f"<{char}{char}", number.real, number.imag)
    except OverflowError:
        raise ConversionError(f"{number!r} does not fit {name}") from None


def _pack_small(value: Any, name: str) -> bytes:
    exponent_bits, mantissa_bits, bias, special = _SMALL[name]
    number = _real(value)
    body = exponent_bits + mantissa_bits
    top = ((1 << exponent_bits) - 1) << mantissa_bits  # the code of infinity in the IEEE types
    sign = (1 << body) if math.copysign(1.0, number) < 0 else 0
    if math.isnan(number):
        codes = {"ieee": top | 1 << mantissa_bits - 1, "fn": (1 << body) - 1, "fnuz": 1 << body}
        if special not in codes:
            raise ConversionError(f"{number!r} does not fit {name}")
        code = codes[special]
    elif math.isinf(number):
        if special != "ieee":
            raise ConversionError(f"{number!r} does not fit {name}")
        code = top | sign
    else:
        size = abs(number)
        # The exponent, but not below that of the subnormal numbers. Scaling by a power of two is exact, and round() is to even.
        exponent = max(math.frexp(size)[1] - 1, 1 - bias) if size else 1 - bias
        steps = round(math.ldexp(size, mantissa_bits - exponent))
        code = steps + (exponent + bias - 1 << mantissa_bits)
        highest = {"ieee": top - 1, "fn": (1 << body) - 2}.get(special, (1 << body) - 1)
        if code > highest:
            raise ConversionError(f"{number!r} does not fit {name}")
        if code or special != "fnuz":
            code |= sign
    return code.to_bytes((body + 8) // 8, "little")


def _pack_exponent(value: Any, name: str) -> bytes:
    """Pack a float8_e8m0fnu: a power of two from 2**-127 to 2**127."""
    number = _real(value)
    if math.isnan(number):
        return b"\xff"
    if math.isinf(number) or number <= 0:
        raise ConversionError(f"{number!r} does not fit {name}")
    mantissa, exponent = math.frexp(number)  # number is mantissa * 2 ** exponent, 0.5 <= mantissa < 1
    code = exponent - 1 + 127
    if mantissa > 0.75 or (mantissa == 0.75 and code % 2):
        code += 1
    if not 0 <= code <= 254:
        raise ConversionError(f"{number!r} does not fit {name}")
    return bytes((code,))


def _pack_lanes(value: Any, name: str, lanes: int, one: Packer) -> bytes:
    if isinstance(value, (str, bytes, bytearray, dict, set, frozenset)) or not hasattr(value, "__len__"):
        raise ConversionError(f"{describe_value(value)} is not a sequence of {lanes} lanes")
    items = list(value)
    if len(items) != lanes or getattr(value, "ndim", 1) != 1:
        description = f"an array of shape {tuple(value.shape)}" if getattr(value, "ndim", 1) != 1 else f"{len(items)} lanes"
        raise ConversionError(f"{description} cannot be passed as {name}, which has {lanes} lanes")
    parts = []
    for number, item in enumerate(items):
        try:
            parts.append(one(item))
        except ConversionError as error:
            raise ConversionError(f"lane {number}: {error}") from None
    return b"".join(parts)


def _bytes_of(value: Any, name: str, size: int) -> bytes:
    """Return the bytes of a struct given as bytes or as an object with a buffer (NumPy's void, a ctypes.Structure)."""
    try:
        return struct_bytes(value, name, size)
    except TypeError:
        raise ConversionError(
            f"{describe_value(value)} is not a struct of {size} bytes; pass bytes, or a NumPy record of that size"
        ) from None


def struct_bytes(value: Any, name: str, size: int) -> bytes:
    """Return the bytes of an object with a buffer of `size` bytes, for the type `name`. Raise TypeError if it has no buffer."""
    view = memoryview(value)
    if view.nbytes != size:
        raise ConversionError(f"{type(value).__name__} of {view.nbytes} bytes cannot be passed as {name}, which has {size} bytes")
    return value if isinstance(value, bytes) else view.tobytes()


def _real(value: Any) -> float:
    """Convert a real number to a float: Python's numbers, NumPy's scalars and arrays without dimensions, fractions, decimals."""
    if not isinstance(value, (str, bytes, bytearray)) and getattr(value, "ndim", 0) == 0 and _kind(value) != "c":
        convert = getattr(type(value), "__float__", None) or getattr(type(value), "__index__", None)
        if convert is not None and not isinstance(value, complex):
            try:
                return float(convert(value))
            except OverflowError:
                raise ConversionError(f"{describe_value(value)} does not fit a floating-point type") from None
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
    return str(getattr(getattr(value, "dtype", None), "kind", "")) if getattr(value, "ndim", 1) == 0 else ""


def _is_void(value: object) -> bool:
    return _kind(value) == "V"
