"""Calls of functions that the driver provides: printf, assertions."""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from devmod_simulators.ptx import device_launches
from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.device_launches import argument, heap_of, put_result
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ops_memory import read_bytes
from devmod_simulators.ptx.ptx_types import U32, U64, Group, Instruction, aligned

_CONVERSION = re.compile(
    r"(%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?)(hh|h|ll|l|z|j|t|L)?([diouxXeEfFgGaAcsp%])"
)


def call_of(instruction: Instruction) -> tuple[list[str], Any, list[str]]:
    """Return the parameters of a call that take its results, what it calls, and the parameters that
    have its arguments.
    """
    results: list[str] = []
    arguments: list[str] = []
    target = None
    for operand in instruction.operands:
        if not isinstance(operand, Group):
            target = target or operand
        elif target is None:
            results += [part.text for part in operand.parts]
        else:
            arguments += [part.text for part in operand.parts]
    return results, target, arguments


def is_system_call(instruction: Instruction) -> bool:
    """Return whether a call goes to a function of this file."""
    _, target, _ = call_of(instruction)
    return getattr(target, "text", "") in _CALLS


#: Returns the bytes at an address, as a thread reads them.
Read = Callable[[int, int], bytes]


def _text(read: Read, address: int) -> str:
    """Return the zero-terminated text at an address."""
    data = b""
    while (byte := read(address + len(data), 1)) != b"\0":
        data += byte
    return data.decode("utf-8", "replace")


def _sign(flags: str, *, is_negative: bool) -> str:
    """Return the sign that printf writes for a number."""
    if is_negative:
        return "-"
    if "+" in flags:
        return "+"
    return " " if " " in flags else ""


def _integral(value: int, kind: str, precision: int | None, flags: str) -> tuple[bool, str, str]:
    """Return whether an integer is negative, its prefix and its digits, as C has them."""
    base = {"o": "o", "x": "x", "X": "x"}.get(kind, "d")
    digits = format(abs(value), base) if value or precision != 0 else ""
    digits = digits.rjust(precision or 0, "0")
    if "#" in flags and kind == "o" and not digits.startswith("0"):
        digits = f"0{digits}"
    prefix = "0x" if "#" in flags and base == "x" and value else ""
    return value < 0, prefix, digits


def _hexadecimal(number: float, precision: int | None, flags: str) -> tuple[bool, str, str]:
    """Return whether a number is negative, its prefix and its hexadecimal digits, as C has them."""
    is_negative = math.copysign(1, number) < 0
    if not math.isfinite(number):
        return is_negative, "", "nan" if math.isnan(number) else "inf"
    text, _, exponent = abs(number).hex()[2:].partition("p")
    whole, _, fraction = text.partition(".")
    if precision is None:
        fraction = fraction.rstrip("0")
    elif precision < len(fraction):
        drop = 4 * (len(fraction) - precision)
        kept, rest = divmod(int(whole + fraction, 16), 1 << drop)
        half = 1 << (drop - 1)
        kept += rest > half or (rest == half and kept % 2 == 1)
        digits = format(kept, "x").rjust(precision + 1, "0")
        whole, fraction = digits[: len(digits) - precision], digits[len(digits) - precision :]
    else:
        fraction = fraction.ljust(precision, "0")
    point = "." if fraction or "#" in flags else ""
    return is_negative, "0x", f"{whole}{point}{fraction}p{exponent}"


class _Format:
    """The text of printf: the arguments are in memory, each aligned to its size."""

    def __init__(self, read: Read, arguments: int) -> None:
        self._read = read
        self._place = arguments

    def _argument(self, form: str) -> Any:
        """Return the next argument, by its format of struct."""
        size = struct.calcsize(form)
        place = aligned(self._place, size)
        self._place = place + size
        (value,) = struct.unpack(f"<{form}", self._read(place, size))
        return value

    def convert(self, match: re.Match[str]) -> str:
        """Return the text for a conversion."""
        form, flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        values = [self._argument("i") for _ in range(form.count("*"))]
        if kind in "aAdioxXu":
            given = iter(values)
            places = next(given) if width == "*" else int(width or 0)
            if precision == "*":
                precision = next(given)
            elif precision is not None:
                precision = int(precision or 0)
            if precision is not None and precision < 0:
                precision = None
            if kind in "aA":
                number = self._argument("d")
                signed, prefix, digits = _hexadecimal(number, precision, flags)
                is_padded = math.isfinite(number)
            else:
                value = self._integer(length, is_signed=kind in "di")
                signed, prefix, digits = _integral(value, kind, precision, flags)
                is_padded = precision is None
            if kind.isupper():
                prefix, digits = prefix.upper(), digits.upper()
            if signed or kind not in "oxXu":
                prefix = _sign(flags, is_negative=signed) + prefix
            if "-" in flags or places < 0:
                return (prefix + digits).ljust(abs(places))
            if "0" in flags and is_padded:
                return prefix + digits.rjust(places - len(prefix), "0")
            return (prefix + digits).rjust(places)
        if kind in "eEfFgG":
            values.append(self._argument("d"))
        elif kind == "s":
            values.append(_text(self._read, self._argument("Q")))
        elif kind == "p":
            address = self._argument("Q")
            values.append(f"0x{address:x}" if address else "(nil)")
            kind = "s"
        elif kind == "c":
            values.append(self._argument("I") & 0xFF)
        return str(form + kind) % tuple(values)

    def _integer(self, length: str | None, *, is_signed: bool) -> int:
        size = "Q" if length in ("ll", "l", "z", "j", "t") else "I"
        if is_signed:
            size = size.lower()
        value: int = self._argument(size)
        if length not in ("h", "hh"):
            return value
        bits = 16 if length == "h" else 8
        value &= (1 << bits) - 1
        if is_signed and value >> (bits - 1):
            value -= 1 << bits
        return value


def printed(read: Read, form: int, arguments: int) -> str:
    """Return what printf prints for a thread, by the addresses of its format and its arguments."""
    return _CONVERSION.sub(_Format(read, arguments).convert, _text(read, form))


def _vprintf(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    forms = argument(lanes, arguments[0], U64)[0]
    values = argument(lanes, arguments[1], U64)[0]
    for number in range(lanes.count):
        read = partial(read_bytes, lanes.select(np.array([number]), []))
        sys.stdout.write(printed(read, int(forms[number]), int(values[number])))
    sys.stdout.flush()
    put_result(lanes, results, np.zeros(1, U32))


def _assertfail(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    message, file, function = (
        _text(partial(read_bytes, lanes), int(argument(lanes, arguments[number], U64)[0][0]))
        for number in (0, 1, 3)
    )
    line = int(argument(lanes, arguments[2], U32)[0][0])
    raise lanes.error(
        "CUDA_ERROR_ASSERT", f"{file}:{line}: {function}: assertion {message!r} failed"
    )


def _malloc(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    heap = heap_of(lanes)
    sizes = argument(lanes, arguments[0], U64)[0]
    addresses = [heap.allocate(int(size)) for size in sizes]
    put_result(lanes, results, np.array(addresses, U64))


def _free(lanes: Lanes, results: list[str], arguments: list[str]) -> None:
    heap = heap_of(lanes)
    for position, address in enumerate(argument(lanes, arguments[0], U64)[0]):
        if address and not heap.release(int(address)):
            raise lanes.error(
                "CUDA_ERROR_LAUNCH_FAILED",
                f"free of 0x{int(address):x}, which malloc did not return",
                position,
            )


_CALLS = {
    "vprintf": _vprintf,
    "__assertfail": _assertfail,
    "malloc": _malloc,
    "free": _free,
    **device_launches.CALLS,
}


@operation("call")
def _call(decoder: Decoder) -> Step:
    results, target, arguments = call_of(decoder.instruction)
    function = _CALLS[target.text]
    return lambda lanes: function(lanes, results, arguments)
