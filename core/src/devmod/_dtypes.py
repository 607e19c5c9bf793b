"""Element types as strings ("float32", "int32", "float16x4", "handle") and as DLPack's (code, bits, lanes).

The table is one to one, so that what a file says of a type survives a round trip through its string, also where the
type is one that we have no name for.
"""

from __future__ import annotations

from devmod.errors import FormatError

#: DLPack's type codes that take a number of bits behind their name.
_SIZED = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
#: Types whose name says everything, lanes aside. (6, 8) is DLPack's bool; TVM writes a uint of 1 bit, which stays "uint1".
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


def dtype_name(dtype: DType) -> str:
    """The string of a (code, bits, lanes): ``(2, 16, 4)`` is ``"float16x4"``."""
    code, bits, lanes = dtype
    name = _NAMED.get((code, bits))
    if name is None:
        base = _SIZED.get(code)
        name = f"{base}{bits}" if base else f"type{code}_{bits}"
    return name if lanes == 1 else f"{name}x{lanes}"


def parse_dtype(text: str) -> DType:
    """The (code, bits, lanes) of a string as `dtype_name` writes it.

    Raises
    ------
    FormatError
        `text` names no type.
    """
    found = _parsed.get(text)
    if found is None:
        found = _parse(text)
        if len(_parsed) < 4096:  # names come from strangers' files; the memo must not grow with them
            _parsed[text] = found
    return found


def dtype_bytes(dtype: DType) -> int:
    """The bytes of one element, lanes included; less than a byte counts as one."""
    return (dtype[1] * dtype[2] + 7) // 8


_parsed: dict[str, DType] = {}


def _parse(text: str) -> DType:
    if not isinstance(text, str):
        raise FormatError(f"a type is a string such as 'float32' or 'handle', not {type(text).__name__}")
    base, mark, count = text.rpartition("x")
    lanes = 1
    if mark and _number(count, 0, 0xFFFF) and count != "1" and base not in ("", "comple"):  # the x of "complex64" marks no lanes
        lanes = int(count)
    else:
        base = text
    if base in _CODE_OF_NAME:
        code, bits = _CODE_OF_NAME[base]
        return code, bits, lanes
    if base.startswith("type"):
        code_text, _, bits_text = base[4:].partition("_")
        if _number(code_text, 0, 255) and _number(bits_text, 0, 255):
            code, bits = int(code_text), int(bits_text)
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
    """Whether `text` is a decimal number in its one canonical spelling, within bounds."""
    if not (text.isascii() and text.isdigit()) or len(text) > 5 or (text[0] == "0" and text != "0"):
        return False
    return low <= int(text) <= high
