"""Scalars by value: Python numbers, sequences of lanes and structs, as the little-endian bytes that a kernel takes.

`packer` gives the converter of one type. It takes whatever stands for such a value and raises `Unfit`, with the reason in
words, for everything else. Floating-point types are rounded to nearest, ties to even; a finite number that none of the type's
finite values is near is refused, as an integer out of range is.
"""

from __future__ import annotations

import math
import struct

from devmod._dtypes import dtype_name, parse_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Packer = Callable[[Any], bytes]

_INTS = {8: "b", 16: "h", 32: "i", 64: "q"}
_FLOATS = {16: "e", 32: "f", 64: "d"}

#: The floating-point types that the struct module does not know: exponent bits, mantissa bits, bias, and what stands for
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


class Unfit(ValueError):
    """A value cannot be passed as a type; the text says why, and begins with the value or what it is."""


def fast_packer(name: str) -> tuple[type, Packer] | None:
    """For a type of plain numbers, the exact Python type, int or float, and its converter; None where there is none.

    The converter raises struct.error or OverflowError for any trouble. That of floats takes ints too.
    """
    code, bits, lanes = parse_dtype(name)
    if lanes != 1 or bits == 1:
        return None
    if code in (0, 1) and bits in _INTS:
        pack: Packer = struct.Struct("<" + (_INTS[bits] if code == 0 else _INTS[bits].upper())).pack
        return int, _Memo(pack).__getitem__
    if code == 2 and bits in _FLOATS:
        return float, struct.Struct("<" + _FLOATS[bits]).pack
    return None


class _Memo(dict[int, bytes]):
    """The bytes of ints met before: looking them up takes a third of the time of packing. (Floats will not do: 0.0 equals -0.0.)"""

    def __init__(self, pack: Packer) -> None:
        self._pack = pack

    def __missing__(self, value: int) -> bytes:
        made = self._pack(value)
        if len(self) < 256:
            self[value] = made
        return made


def packer(name: str, *, bool_bytes: int = 1, vec3_lanes: int = 4, align: int = 0) -> Packer:
    """The converter of a type.

    Parameters
    ----------
    name
        The type, such as "int32", "float16x4", or "uint8xN" for a struct of N bytes.
    bool_bytes
        The bytes of one bool: 1 in C-like kinds, 4 in GLSL and WGSL.
    vec3_lanes
        The lanes that three of them take: 4 in OpenCL C and MSL.
    align
        A struct's alignment: more than 0 says that "uint8x3" is a struct of three bytes and no vector.
    """
    code, bits, lanes = parse_dtype(name)
    if lanes == 1:
        return _packer_of_one(name, code, bits, bool_bytes)
    one = _packer_of_one(dtype_name((code, bits, 1)), code, bits, bool_bytes)
    bare = code == 1 and bits == 8
    if bare and align:
        return lambda value: _bytes_of(value, name, lanes)
    width = len(_zero(one, code, bits, bool_bytes))
    padding = bytes(width * (vec3_lanes - 3)) if lanes == 3 else b""

    def pack(value: Any) -> bytes:
        if (bare and isinstance(value, (bytes, bytearray, memoryview))) or _is_void(value):
            return _bytes_of(value, name, lanes * width if bare else lanes * width + len(padding)) + (padding if bare else b"")
        return _pack_lanes(value, name, lanes, one) + padding

    return pack


def _packer_of_one(name: str, code: int, bits: int, bool_bytes: int) -> Packer:
    if (code, bits) in ((6, 8), (1, 1)):
        return lambda value: _pack_bool(value, bool_bytes)
    if code in (0, 1) and bits in _INTS:
        return lambda value: _pack_int(value, name, bits, code == 0)
    if code == 2 and bits in _FLOATS:
        return lambda value: _pack_float(value, name, _FLOATS[bits])
    if code == 5 and bits in (64, 128):
        return lambda value: _pack_complex(value, name, _FLOATS[bits // 2])
    if name in _SMALL:
        return lambda value: _pack_small(value, name)
    if name == "float8_e8m0fnu":
        return lambda value: _pack_exponent(value, name)

    def refuse(value: Any) -> bytes:
        raise Unfit(f"{_shown(value)} cannot be passed: a value of type {name} has no form here")

    return refuse


def _zero(one: Packer, code: int, bits: int, bool_bytes: int) -> bytes:
    """As many bytes as one lane takes."""
    return bytes(bool_bytes if (code, bits) in ((6, 8), (1, 1)) else (bits + 7) // 8)


def _pack_bool(value: Any, width: int) -> bytes:
    if type(value) is bool or _kind(value) == "b" or (type(value) is int and value in (0, 1)):
        return int(bool(value)).to_bytes(width, "little")
    raise Unfit(f"{_shown(value)} is not a bool")


def _pack_int(value: Any, name: str, bits: int, signed: bool) -> bytes:
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        raise Unfit(f"{_shown(value)} is not a whole number") from None
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise Unfit(f"{number} does not fit {name} ({low} to {high})")
    return number.to_bytes(bits // 8, "little", signed=signed)


def _pack_float(value: Any, name: str, char: str) -> bytes:
    number = _real(value)
    try:
        return struct.pack("<" + char, number)
    except OverflowError:
        raise Unfit(f"{number!r} does not fit {name}") from None


def _pack_complex(value: Any, name: str, char: str) -> bytes:
    if isinstance(value, complex) or _kind(value) == "c":
        number = complex(value)
    else:
        number = complex(_real(value), 0.0)
    try:
        return struct.pack(f"<{char}{char}", number.real, number.imag)
    except OverflowError:
        raise Unfit(f"{number!r} does not fit {name}") from None


def _pack_small(value: Any, name: str) -> bytes:
    exponent_bits, mantissa_bits, bias, special = _SMALL[name]
    number = _real(value)
    body = exponent_bits + mantissa_bits
    top = ((1 << exponent_bits) - 1) << mantissa_bits  # the code of infinity in the IEEE types
    sign = (1 << body) if math.copysign(1.0, number) < 0 else 0
    if math.isnan(number):
        codes = {"ieee": top | 1 << mantissa_bits - 1, "fn": (1 << body) - 1, "fnuz": 1 << body}
        if special not in codes:
            raise Unfit(f"{number!r} does not fit {name}")
        code = codes[special]
    elif math.isinf(number):
        if special != "ieee":
            raise Unfit(f"{number!r} does not fit {name}")
        code = top | sign
    else:
        size = abs(number)
        # The exponent, but not below that of the subnormal numbers. Scaling by a power of two is exact, and round() is to even.
        exponent = max(math.frexp(size)[1] - 1, 1 - bias) if size else 1 - bias
        steps = round(math.ldexp(size, mantissa_bits - exponent))
        code = steps + (exponent + bias - 1 << mantissa_bits)
        highest = {"ieee": top - 1, "fn": (1 << body) - 2}.get(special, (1 << body) - 1)
        if code > highest:
            raise Unfit(f"{number!r} does not fit {name}")
        if code or special != "fnuz":
            code |= sign
    return code.to_bytes((body + 8) // 8, "little")


def _pack_exponent(value: Any, name: str) -> bytes:
    """float8_e8m0fnu: powers of two alone, from 2**-127 to 2**127."""
    number = _real(value)
    if math.isnan(number):
        return b"\xff"
    if math.isinf(number) or number <= 0:
        raise Unfit(f"{number!r} does not fit {name}")
    mantissa, exponent = math.frexp(number)  # number is mantissa * 2 ** exponent, 0.5 <= mantissa < 1
    code = exponent - 1 + 127
    if mantissa > 0.75 or (mantissa == 0.75 and code % 2):
        code += 1
    if not 0 <= code <= 254:
        raise Unfit(f"{number!r} does not fit {name}")
    return bytes((code,))


def _pack_lanes(value: Any, name: str, lanes: int, one: Packer) -> bytes:
    if isinstance(value, (str, bytes, bytearray, dict, set, frozenset)) or not hasattr(value, "__len__"):
        raise Unfit(f"{_shown(value)} is not a sequence of {lanes} lanes")
    items = list(value)
    if len(items) != lanes or getattr(value, "ndim", 1) != 1:
        counted = f"an array of shape {tuple(value.shape)}" if getattr(value, "ndim", 1) != 1 else f"{len(items)} lanes"
        raise Unfit(f"{counted} cannot be passed as {name}, which has {lanes} lanes")
    made = []
    for number, item in enumerate(items):
        try:
            made.append(one(item))
        except Unfit as error:
            raise Unfit(f"lane {number}: {error}") from None
    return b"".join(made)


def _bytes_of(value: Any, name: str, size: int) -> bytes:
    """The bytes of a struct, given as bytes or as anything with a buffer (NumPy's void, a ctypes.Structure)."""
    try:
        view = memoryview(value)
    except TypeError:
        raise Unfit(f"{_shown(value)} is not a struct of {size} bytes; pass bytes, or a NumPy record of that size") from None
    if view.nbytes != size:
        raise Unfit(f"{type(value).__name__} of {view.nbytes} bytes cannot be passed as {name}, which has {size} bytes")
    return view.tobytes()


def _real(value: Any) -> float:
    """A Python float of a real number: Python's, NumPy's scalars and arrays without dimensions, fractions, decimals."""
    if not isinstance(value, (str, bytes, bytearray)) and getattr(value, "ndim", 0) == 0 and _kind(value) != "c":
        convert = getattr(type(value), "__float__", None) or getattr(type(value), "__index__", None)
        if convert is not None and not isinstance(value, complex):
            try:
                return float(convert(value))
            except OverflowError:
                raise Unfit(f"{_shown(value)} does not fit a floating-point type") from None
            except (TypeError, ValueError):
                pass
    raise Unfit(f"{_shown(value)} is not a number")


def _kind(value: object) -> str:
    """NumPy's letter for the kind of a scalar or array, "" for what is not NumPy's."""
    return str(getattr(getattr(value, "dtype", None), "kind", "")) if getattr(value, "ndim", 1) == 0 else ""


def _is_void(value: object) -> bool:
    return _kind(value) == "V"


def _shown(value: object) -> str:
    """A value in a message: numbers and short text as they are, else the type's name."""
    if isinstance(value, (int, float, complex)) or (isinstance(value, str) and len(value) < 30) or value is None:
        text = repr(value)
        return text if len(text) < 60 else f"an int of {len(text)} digits"
    name = type(value).__name__
    dimensions = getattr(value, "shape", None)
    if isinstance(dimensions, tuple) and dimensions:
        return f"an array of shape {dimensions}"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
