"""Change the calls of printf in a program in LLVM IR text to calls of functions that the kind's
printf implements.

OpenCL C's printf has vectors, a `long` of 64 bits everywhere, and formats and strings that are
literals. So each call gets a function of its own, with numbers as its parameters: its format has
the strings, and a conversion for each element of a vector.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from devmod_targets._text import split_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_CALL = re.compile(
    r"^(?P<start>[ \t]*(?:%[\w.]+ = )?)(?:tail )?call [^\n@]*, \.\.\.\) @printf\(", re.MULTILINE
)
_DECLARATION = re.compile(r"^declare [^\n]*@printf\([^\n]*\n", re.MULTILINE)
#: The line number of a call, which LLVM requires of each call in a function that has lines.
_PLACE = re.compile(r", !dbg !\d+")
_VALUE = re.compile(
    r"(?P<type><\d+ x \w+>|\w+(?: addrspace\(\d+\))?) (?:(?:noundef|signext|zeroext|nonnull|align \d+|captures\([^()]*\)) )*(?P<value>.+)",
    re.DOTALL,
)
_TEXT = re.compile(
    r'(?P<name>@[\w.$]+) = [^\n"]*? constant \[\d+ x i8\] (?:c"(?P<text>[^"\n]*)"|zeroinitializer)'
)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|\\)")
_CONVERSION = re.compile(
    r"%(?:%|(?P<form>[-+ #0]*\d*(?:\.\d*)?)(?:v(?P<lanes>\d{1,2}))?(?P<length>hh|hl|h|l)?(?P<kind>[a-zA-Z])?)"
)
#: A conversion that is none, for the error.
_WORD = re.compile(r"%(?:[^%\sa-zA-Z]|[hjltvzIL])*[a-zA-Z]?")
#: A width or a precision that is too large: Python writes the strings here.
_LONG = re.compile(r"[1-9]\d{3}")
_VECTOR = re.compile(r"<(\d+) x (\w+)>")
#: The conversions by the types that they print.
_SIGNED = "di"
_INTEGERS = f"{_SIGNED}ouxX"
_FLOATS = "aAeEfFgG"


class Print(NamedTuple):
    """A function in place of one call of printf.

    Attributes
    ----------
    symbol
        Its name.
    format
        The format, for C's printf with a `long long` of 64 bits.
    types
        The types of its parameters in LLVM IR: "i32", "i64" and "double".
    """

    symbol: str
    format: bytes
    types: Sequence[str]


class PrintError(ValueError):
    """A call of printf has a format or a value that OpenCL C does not have."""


def read_prints(text: str) -> tuple[str, list[Print]]:
    """Return the program with calls of other functions in place of printf, and these functions.

    Raises
    ------
    PrintError
        A format is no literal, or does not fit its values.
    """
    if "@printf(" not in text:
        return text, []
    texts = {match["name"]: _bytes(match["text"] or "") for match in _TEXT.finditer(text)}
    prints: list[Print] = []
    parts: list[str] = []
    at = 0
    for match in _CALL.finditer(text):
        arguments = split_arguments(text, match.end()) or []
        end = text.index("\n", match.end())
        symbol = f"devmod_print_{len(prints)}"
        format_, *values = [_split(each) for each in arguments]
        if format_[1] not in texts:
            raise PrintError("the format of printf is no literal")
        call = _Call(symbol, texts)
        printed = call.convert(texts[format_[1]], values)
        prints.append(Print(symbol, printed, [type_ for type_, _ in call.values]))
        passed = ", ".join(f"{type_} {value}" for type_, value in call.values)
        place = _PLACE.search(text, match.end(), end)
        parts += [text[at : match.start()], *call.lines]
        parts.append(f"{match['start']}call i32 @{symbol}({passed}){place[0] if place else ''}")
        at = end
    parts.append(text[at:])
    return _DECLARATION.sub("", "".join(parts)), prints


def _bytes(text: str) -> bytes:
    """Return the bytes of a string in LLVM IR."""

    def byte(code: re.Match[bytes]) -> bytes:
        if code[1] == b"\\":
            return b"\\"
        return bytes([int(code[1], 16)])

    return _ESCAPE.sub(byte, text.encode())


def _split(argument: str) -> tuple[str, str]:
    match = _VALUE.fullmatch(argument)
    if match is None:
        return "", argument
    return match["type"], match["value"]


class _Call:
    """The values of one call, and the statements that make them."""

    def __init__(self, symbol: str, texts: Mapping[str, bytes]) -> None:
        self._symbol = symbol
        self._texts = texts
        self.values: list[tuple[str, str]] = []
        self.lines: list[str] = []

    def convert(self, text: bytes, values: Sequence[tuple[str, str]]) -> bytes:
        """Return the format for the values of the call."""
        rest = iter(values)

        def replace(match: re.Match[str]) -> str:
            if match[0] == "%%":
                return match[0]
            return self._conversion(match, rest)

        # A byte is a character of Latin-1.
        format_ = text.partition(b"\0")[0].decode("latin-1")
        return _CONVERSION.sub(replace, format_).encode("latin-1")

    def _conversion(self, match: re.Match[str], rest: Iterator[tuple[str, str]]) -> str:
        kind = match["kind"] or ""
        lanes = int(match["lanes"] or 1)
        what = f"the conversion {match[0]!r} of printf"
        if not kind:
            word = _WORD.match(match.string, match.start())
            assert word is not None
            what = f"the conversion {word[0]!r} of printf"
        if _LONG.search(match["form"]):
            raise PrintError(f"{what} has a width over 999")
        is_vector = bool(match["lanes"])
        if not kind or kind not in f"{_INTEGERS}{_FLOATS}csp" or (is_vector and kind in "csp"):
            raise PrintError(f"{what} is unknown")
        type_, value = next(rest, ("", ""))
        if not type_:
            raise PrintError(f"{what} has no value")
        vector = _VECTOR.fullmatch(type_)
        element = type_
        count = 1
        if vector:
            element = vector[2]
            count = int(vector[1])
        if count != lanes or not _fits(kind, element):
            raise PrintError(f"{what} has a value of the type {type_} in LLVM IR")
        if kind == "s":
            if value not in self._texts:
                raise PrintError(f"the value of {what} is no literal")
            literal = self._texts[value].partition(b"\0")[0].decode("latin-1")
            return (f"%{match['form']}s" % literal).replace("%", "%%")
        length = ""
        if kind in _INTEGERS:
            length = {"hh": "hh", "h": "h"}.get(match["length"] or "", "")
            if element == "i64":
                length = "ll"
        for lane in range(lanes):
            number = value
            if vector:
                number = self._line(f"extractelement {type_} {value}, i32 {lane}")
            self._pass(kind, element, number)
        return ",".join([f"%{match['form']}{length}{kind}"] * lanes)

    def _pass(self, kind: str, element: str, value: str) -> None:
        if element in ("half", "float"):
            value = self._line(f"fpext {element} {value} to double")
            element = "double"
        elif element in ("i8", "i16"):
            way = "zext"
            if kind in _SIGNED:
                way = "sext"
            value = self._line(f"{way} {element} {value} to i32")
            element = "i32"
        elif element.startswith("ptr"):
            value = self._line(f"ptrtoint {element} {value} to i64")
            element = "i64"
        self.values.append((element, value))

    def _line(self, instruction: str) -> str:
        name = f"%{self._symbol}.{len(self.lines)}"
        self.lines.append(f"  {name} = {instruction}\n")
        return name


def _fits(kind: str, element: str) -> bool:
    """Return whether a conversion prints a type of LLVM IR."""
    if kind in _FLOATS:
        return element in ("half", "float", "double")
    if kind in "sp":
        return element.startswith("ptr")
    if kind in _INTEGERS:
        return element in ("i8", "i16", "i32", "i64")
    return element == "i32"


def literal(data: bytes) -> str:
    """Return bytes as a string in LLVM IR, with a zero at its end."""
    return "".join(map(_character, data + b"\0"))


def _character(byte: int) -> str:
    if 32 <= byte < 127 and byte not in b'"\\':
        return chr(byte)
    return f"\\{byte:02X}"


def define_with_vprintf(prints: Iterable[Print]) -> str:
    """Return the functions in LLVM IR text, by a function ``vprintf`` of the driver. It takes the
    values in memory, as the members of a struct.
    """
    lines = []
    for each in prints:
        text = literal(each.format)
        types = ", ".join(each.types)
        struct = f"{{ {types} }}"
        constant = f"@{each.symbol}.format"
        lines += [
            f'{constant} = private unnamed_addr addrspace(1) constant [{len(each.format) + 1} x i8] c"{text}", align 1',
            f"define internal i32 @{each.symbol}({types}) {{",
            f"  %values = alloca {struct}, align 8",
        ]
        for number, type_ in enumerate(each.types):
            member = f"%values.{number}"
            lines.append(f"  {member} = getelementptr {struct}, ptr %values, i32 0, i32 {number}")
            lines.append(f"  store {type_} %{number}, ptr {member}")
        format_ = f"ptr addrspacecast (ptr addrspace(1) {constant} to ptr)"
        lines += [
            f"  %count = call i32 @vprintf({format_}, ptr %values)",
            "  ret i32 0",
            "}",
        ]
    return "\n".join([*lines, "declare i32 @vprintf(ptr, ptr)", ""])
