"""Read files of safetensors: the places of their tensors, checked against the size of the file. No
tensor is read.
"""

from __future__ import annotations

import json
import os
from typing import Any, BinaryIO, NamedTuple

from devmod.backend import array_bytes, parse_dtype
from devmod.errors import FormatError

__all__ = ["Place", "SafetensorsFile"]

#: The element types of safetensors.
_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
#: The largest header. The format's own limit.
_MAX_HEADER = 100_000_000
#: The limit on a value of a file in a message.
_MAX_TEXT = 200


class Place(NamedTuple):
    """The type and the shape of a tensor, and where its bytes are in the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


# A safetensors file: the header's length (u64, little-endian), the header in JSON, the data.
#
#   header   name -> {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]},
#            and "__metadata__" with strings
class SafetensorsFile:
    """The header of a file of safetensors.

    Parameters
    ----------
    file
        The open file.
    shown
        Its name in messages.

    Attributes
    ----------
    header
        What the file says about each tensor, by name. It is not checked.

    Raises
    ------
    FormatError
        The file is none of safetensors.
    """

    def __init__(self, file: BinaryIO, shown: str) -> None:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(_MAX_HEADER, size - 8):
            raise FormatError(
                f"{shown} is not a safetensors file: its header of {length} bytes exceeds the file of {size} bytes"
            )
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError) as error:
            raise FormatError(
                f"{shown} is not a safetensors file: its header is not JSON: {error}"
            ) from None
        if not isinstance(header, dict):
            raise FormatError(
                f"{shown} is not a safetensors file: its header is not a map of tensors"
            )
        header.pop("__metadata__", None)
        self.header: dict[str, Any] = header
        self._shown = shown
        self._start = 8 + length
        self._size = size - self._start
        self._total = 0

    def place(self, name: str) -> Place:
        """Return where a tensor is, once for each.

        Raises
        ------
        FormatError
            Its type, its shape or its place is invalid, or the tensors overlap.
        """
        dtype, shape, begin, end = _entry(
            self.header[name], f"{name!r} of {self._shown}", self._size
        )
        self._total += end - begin
        if self._total > self._size:  # which would multiply the file
            raise FormatError(
                f"{self._shown} is not a safetensors file: the bytes of its tensors overlap"
            )
        return Place(dtype, shape, self._start + begin, self._start + end)


def _entry(entry: Any, subject: str, size: int) -> tuple[str, tuple[int, ...], int, int]:
    """Return the type, the shape and the place of a tensor, checked against the size of the
    data.
    """
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    code: Any = fields.get("dtype")
    shape: Any = fields.get("shape")
    offsets: Any = fields.get("data_offsets")
    dtype: str | None = None
    if isinstance(code, str):
        dtype = _TYPES.get(code)
    if dtype is None:
        raise FormatError(
            f"{subject} has elements of the type {_short(code)}; expected one of {', '.join(_TYPES)}"
        )
    if not _are_counts(shape) or len(shape) > 64:
        raise FormatError(
            f"{subject} has an invalid shape: expected up to 64 integers of 0 or more, got {_short(shape)}"
        )
    if not _are_counts(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= size:
        raise FormatError(
            f"{subject} has invalid offsets: expected two within {size} bytes, got {_short(offsets)}"
        )
    begin, end = offsets
    expected = array_bytes(parse_dtype(dtype), tuple(shape))
    if end - begin != expected:
        raise FormatError(
            f"{subject} has {end - begin} bytes; expected {expected} for {dtype} of the shape {shape}"
        )
    return dtype, tuple(shape), begin, end


def _are_counts(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return all(type(each) is int and 0 <= each < 2**63 for each in value)


def _short(value: Any) -> str:
    text = repr(value)
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}…"
