"""Element types as strings ("float32", "int32", "float16x4", "handle") and as DLPack's (code, bits,
lanes).

Each type has one string and each string one type, so a type of a file survives a round trip, even
if it has no name here.
"""

from __future__ import annotations

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


#: DLPack's type codes whose names end with the number of bits.
_SIZED = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
# Where to change: an element type, which scalars have too
#   here: `_NAMED`, `STRUCT_FORMATS`
#   also: `plugins/runtime/src/devmod_runtime/_launch/scalars.py` (`_SMALL`) for a float that the
#     struct module lacks; `extras/browser/js/src/dtypes.js` has the browser's copy;
#     `docs/formats.md`, `tests/spec_reader.py` (`NAMED`), `tools/golden_forms.py`
#   tests: `tests/test_repository.py`, `tests/test_new_members.py`
#: The names of (code, bits). (6, 8) is DLPack's bool. TVM's bool is a uint of 1 bit, "uint1".
_NAMED = {
    (3, 64): "handle",
    (3, 0): "void",
    (6, 8): "bool",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
    (15, 6): "float6_e2m3fn",
    (16, 6): "float6_e3m2fn",
    (17, 4): "float4_e2m1fn",
}
_CODE_OF_NAME = {name: pair for pair, name in _NAMED.items()}
_CODE_OF_SIZED = {name: code for code, name in _SIZED.items()}

DType = tuple[int, int, int]

#: The struct module's format of each element type. The other types have none.
STRUCT_FORMATS = {
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "Zf",
    "complex128": "Zd",
    "bool": "?",
    "uint1": "?",
}
#: The types of real numbers: the values are Python's int or float.
NUMBERS = frozenset(name for name, char in STRUCT_FORMATS.items() if char in "bBhHiIqQefd")


def dtype_name(dtype: DType) -> str:
    """Return the string of a (code, bits, lanes): ``"float16x4"`` for ``(2, 16, 4)``."""
    code, bits, lanes = dtype
    if (code, bits) in _NAMED:
        name = _NAMED[code, bits]
    elif code in _SIZED:
        name = f"{_SIZED[code]}{bits}"
    else:
        name = f"type{code}_{bits}"
    if lanes == 1:
        return name
    return f"{name}x{lanes}"


def parse_dtype(text: str) -> DType:
    """Return the (code, bits, lanes) of a string from `dtype_name`.

    Raises
    ------
    FormatError
        `text` is not the name of a type.
    """
    try:
        result = _parsed.get(text)
    except TypeError:  # it is unhashable, so it is not a string
        result = None
    if result is None:
        result = _parse(text)
        if len(_parsed) < 4096:  # names come from untrusted files, so the cache is bounded
            _parsed[text] = result
    return result


def array_bytes(dtype: DType, shape: Iterable[int] = ()) -> int:
    """Return the size in bytes of an array in C order, in files, host memory and device memory.

    Elements and lanes are packed bit by bit, as in DLPack and TVM; the whole array is rounded up to
    bytes. Two types have one byte per element: ``uint1`` without lanes, which is TVM's bool, and
    ``void``, which is untyped memory.
    """
    code, bits, lanes = dtype
    if (code, bits, lanes) == (1, 1, 1) or (code, bits) == (3, 0):
        bits = 8
    total = bits * lanes
    for length in shape:
        total *= length
    return (total + 7) // 8


def is_packed(dtype: DType) -> bool:
    """Return whether a lane is not a whole number of bytes (int4, float6, uint1 with lanes). Lanes
    then share bytes.
    """
    return dtype[1] % 8 != 0 and dtype != (1, 1, 1)


_parsed: dict[str, DType] = {}


def _parse(text: str) -> DType:
    if not isinstance(text, str):
        raise FormatError(
            f"a type is a string such as 'float32' or 'handle', not {type(text).__name__}"
        )
    base, mark, count = text.rpartition("x")
    lanes = 1
    # The x of "complex64" marks no lanes.
    if mark and _number(count, 0, 0xFFFF) and count != "1" and base not in ("", "comple"):
        lanes = int(count)
    else:
        base = text
    if base in _CODE_OF_NAME:
        code, bits = _CODE_OF_NAME[base]
        return code, bits, lanes
    if base.startswith("type"):
        code_text, _, bits_text = base[4:].partition("_")
        if _number(code_text, 0, 255) and _number(bits_text, 0, 255):
            code = int(code_text)
            bits = int(bits_text)
            if (code, bits) not in _NAMED and code not in _SIZED:
                return code, bits, lanes
    else:
        word = base.rstrip("0123456789")
        if word in _CODE_OF_SIZED and _number(base[len(word) :], 0, 255):
            return _CODE_OF_SIZED[word], int(base[len(word) :]), lanes
    raise FormatError(
        f"{text!r} is not a type: expected a name such as 'float32', 'int64', 'uint8', 'bool', 'bfloat16', 'handle', "
        "or one with lanes such as 'float16x4'"
    )


def _number(text: str, low: int, high: int) -> bool:
    """Return whether `text` is a decimal number without leading zeros, within bounds."""
    if not (text.isascii() and text.isdigit()) or len(text) > 5 or (text[0] == "0" and text != "0"):
        return False
    return low <= int(text) <= high


class ConversionError(ValueError):
    """A value cannot be passed as a type. The text is the reason; it begins with the value or its
    type.
    """


def describe_value(value: object) -> str:
    """Return a value as text for a message: the repr of numbers and short strings, the type's name
    otherwise.
    """
    # Python may refuse to convert ints of 640 digits to text.
    if isinstance(value, int) and value.bit_length() > 192:
        return f"an int of {value.bit_length()} bits"
    if value is None or isinstance(value, (int, float, complex)):
        return repr(value)
    if isinstance(value, str) and len(value) < 30:
        return repr(value)

    name = type(value).__name__
    try:
        dimensions = getattr(value, "shape", None)
    except Exception:  # noqa: BLE001 - a proxy's; the message is about another error
        dimensions = None
    if isinstance(dimensions, tuple) and dimensions and name != "Image":  # devmod's or pyopencl's
        return f"an array of shape {dimensions}"
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article} {name}"
