"""Change the calls of printf in a program in LLVM IR text to calls of functions that CUDA's or HIP's printf implements.

OpenCL C's printf has vectors, a `long` of 64 bits everywhere, and formats and strings that are literals. So each call gets a function of
its own, with numbers as its parameters: its format has the strings, and a conversion for each element of a vector.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from devmod_targets._text import split_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_CALL = re.compile(r"^(?P<start>[ \t]*(?:%[\w.]+ = )?)(?:\w+ )?call [^\n@]*, \.\.\.\) @printf\(", re.MULTILINE)
_VALUE = re.compile(
    r"(?P<type><\d+ x \w+>|\w+(?: addrspace\(\d+\))?) (?:(?:noundef|signext|zeroext|nonnull|align \d+|captures\([^()]*\)) )*(?P<value>.+)",
    re.DOTALL,
)
_TEXT = re.compile(r'(?P<name>@[\w.$]+) = [^\n"]*? constant \[\d+ x i8\] (?:c"(?P<text>[^"\n]*)"|zeroinitializer)')
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|\\)")
_CONVERSION = re.compile(r"%(?:%|(?P<form>[-+ #0]*\d*(?:\.\d*)?)(?:v(?P<lanes>\d{1,2}))?(?P<length>hh|hl|h|l)?(?P<kind>[a-zA-Z])?)")
#: A conversion that is none, for the error.
_WORD = re.compile(r"%(?:[^%\sa-zA-Z]|[hjltvzIL])*[a-zA-Z]?")
#: A width or a precision that is too large: Python writes the strings here.
_LONG = re.compile(r"[1-9]\d{3}")
_VECTOR = re.compile(r"<(\d+) x (\w+)>")
#: The conversions by the types that they print.
_INTEGERS, _FLOATS = "diouxX", "aAeEfFgG"


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
    texts = {match["name"]: _ESCAPE.sub(_byte, (match["text"] or "").encode()) for match in _TEXT.finditer(text)}
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
        parts += [text[at : match.start()], *(f"  {line}\n" for line in call.lines), f"{match['start']}call i32 @{symbol}({passed})"]
        at = end
    parts.append(text[at:])
    return re.sub(r"^declare [^\n]*@printf\([^\n]*\n", "", "".join(parts), flags=re.MULTILINE), prints


def _byte(code: re.Match[bytes]) -> bytes:
    return b"\\" if code[1] == b"\\" else bytes([int(code[1], 16)])


def _split(argument: str) -> tuple[str, str]:
    match = _VALUE.fullmatch(argument)
    return (match["type"], match["value"]) if match else ("", argument)


class _Call:
    """The values of one call, and the statements that make them."""

    def __init__(self, symbol: str, texts: Mapping[str, bytes]) -> None:
        self._symbol, self._texts = symbol, texts
        self.values: list[tuple[str, str]] = []
        self.lines: list[str] = []

    def convert(self, text: bytes, values: Sequence[tuple[str, str]]) -> bytes:
        """Return the format for the values of the call."""
        rest = iter(values)

        def replace(match: re.Match[str]) -> str:
            return match[0] if match[0] == "%%" else self._conversion(match, rest)

        # A byte is a character of Latin-1.
        return _CONVERSION.sub(replace, text.partition(b"\0")[0].decode("latin-1")).encode("latin-1")

    def _conversion(self, match: re.Match[str], rest: Iterable[tuple[str, str]]) -> str:
        kind, lanes = match["kind"] or "", int(match["lanes"] or 1)
        what = f"the conversion {match[0]!r} of printf"
        if not kind and (word := _WORD.match(match.string, match.start())):
            what = f"the conversion {word[0]!r} of printf"
        if _LONG.search(match["form"] or ""):
            raise PrintError(f"{what} has a width over 999")
        if not kind or kind not in f"{_INTEGERS}{_FLOATS}csp" or (lanes > 1 and kind in "csp"):
            raise PrintError(f"{what} is unknown")
        type_, value = next(iter(rest), ("", ""))
        if not type_:
            raise PrintError(f"{what} has no value")
        vector = _VECTOR.fullmatch(type_)
        element, count = (vector[2], int(vector[1])) if vector else (type_, 1)
        if count != lanes or not _fits(kind, element):
            raise PrintError(f"{what} has a value of the type {type_} in LLVM IR")
        if kind == "s":
            if value not in self._texts:
                raise PrintError(f"the value of {what} is no literal")
            literal = self._texts[value].partition(b"\0")[0].decode("latin-1")
            return (f"%{match['form']}s" % literal).replace("%", "%%")
        length = "ll" if element == "i64" and kind in _INTEGERS else {"hh": "hh", "h": "h"}.get(match["length"] or "", "")
        for lane in range(lanes):
            self._pass(kind, element, self._line(f"extractelement {type_} {value}, i32 {lane}") if vector else value)
        return ",".join([f"%{match['form']}{length if kind in _INTEGERS else ''}{kind}"] * lanes)

    def _pass(self, kind: str, element: str, value: str) -> None:
        if element in ("half", "float"):
            element, value = "double", self._line(f"fpext {element} {value} to double")
        elif element in ("i8", "i16"):
            element, value = "i32", self._line(f"{'sext' if kind in 'di' else 'zext'} {element} {value} to i32")
        elif element.startswith("ptr"):
            element, value = "i64", self._line(f"ptrtoint {element} {value} to i64")
        self.values.append((element, value))

    def _line(self, instruction: str) -> str:
        name = f"%{self._symbol}.{len(self.lines)}"
        self.lines.append(f"{name} = {instruction}")
        return name


def _fits(kind: str, element: str) -> bool:
    """Return whether a conversion prints a type of LLVM IR."""
    if kind in _FLOATS:
        return element in ("half", "float", "double")
    if kind in "sp":
        return element.startswith("ptr")
    return element in ("i8", "i16", "i32", "i64") if kind in _INTEGERS else element == "i32"


def define_cuda(prints: Iterable[Print]) -> str:
    """Return the functions in LLVM IR, by vprintf of CUDA's driver. It takes the values in memory, as the members of a struct."""
    lines = []
    for each in prints:
        data = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in each.format + b"\0")
        struct = f"{{ {', '.join(each.types)} }}"
        values = f"{each.symbol}.values"
        lines += [
            f'@{each.symbol}.format = private unnamed_addr addrspace(1) constant [{len(each.format) + 1} x i8] c"{data}", align 1',
            f"define internal i32 @{each.symbol}({', '.join(each.types)}) {{",
            f"  %{values} = alloca {struct}, align 8",
        ]
        for number, type_ in enumerate(each.types):
            lines.append(f"  %{values}.{number} = getelementptr {struct}, ptr %{values}, i32 0, i32 {number}")
            lines.append(f"  store {type_} %{number}, ptr %{values}.{number}")
        text = f"ptr addrspacecast (ptr addrspace(1) @{each.symbol}.format to ptr)"
        lines += [f"  %{each.symbol}.count = call i32 @vprintf({text}, ptr %{values})", "  ret i32 0", "}"]
    return "\n".join([*lines, "declare i32 @vprintf(ptr, ptr)", ""])


def declare(prints: Iterable[Print]) -> str:
    """Return the declarations of the functions in LLVM IR."""
    return "".join(f"declare i32 @{each.symbol}({', '.join(each.types)})\n" for each in prints)


def define_hip(prints: Iterable[Print]) -> dict[str, str]:
    """Return the functions in HIP by their symbols. Without ROCm's device library they print nothing."""
    types = {"i32": "int", "i64": "long long", "double": "double"}
    result = {}
    for each in prints:
        text = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in each.format)
        taken = ", ".join(f"{types[type_]} a{number}" for number, type_ in enumerate(each.types))
        passed = "".join(f", a{number}" for number in range(len(each.types)))
        body = f'#ifdef DEVMOD_DEVICE_LIBS\nreturn printf("{text}"{passed});\n#else\nreturn 0;\n#endif'
        result[each.symbol] = f"int {each.symbol}({taken})\n{{\n{body}\n}}"
    return result
