"""The functions and operators of OpenCL C for integers, for each type and number of lanes, against
Python's integers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

DTYPES = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
}
LANES = (1, 2, 3, 4, 8, 16)
#: The rows of a thread: a multiple of the lanes of every vector.
ROWS = 48
#: The combinations of numbers that the compiler knows.
CONSTANTS = 2
#: An expression with the variables a, b and c, with constants for b and c, and with constants.
EXPRESSIONS = 1 + 2 * CONSTANTS


class Integer(NamedTuple):
    """A type of integers."""

    name: str

    @property
    def bits(self) -> int:
        return np.dtype(DTYPES[self.name]).itemsize * 8

    @property
    def least(self) -> int:
        return 0 if self.name.startswith("u") else -(2 ** (self.bits - 1))

    @property
    def most(self) -> int:
        return 2**self.bits + self.least - 1

    def wrap(self, value: int) -> int:
        """Return the number of this type with the same low bits."""
        return (value - self.least) % 2**self.bits + self.least

    def saturate(self, value: int) -> int:
        """Return the nearest number of this type."""
        return min(max(value, self.least), self.most)

    def pattern(self, value: int) -> int:
        """Return the bits of a number as one that is not negative."""
        return value % 2**self.bits

    def literal(self, value: int) -> str:
        """Return a constant. C has no literal for the least number of a type."""
        suffix = {"uint": "U", "long": "L", "ulong": "UL"}.get(self.name, "")
        if value < 0:
            return f"(({self.name})({value + 1}{suffix} - 1))"
        return f"(({self.name}){value}{suffix})"


class Case(NamedTuple):
    """An expression of a, b and c, and its exact value; None where OpenCL leaves it open.

    `result` and `second` are the types of the result and of b, relative to that of a: "" for the
    same, "signed", "unsigned" and "double" for one of twice the bits. `one_lane` is the exact value
    for numbers, where that of vectors differs.
    """

    call: str
    exact: Callable[..., int | None]
    result: str = ""
    second: str = ""
    one_lane: Callable[..., int | None] | None = None

    @property
    def count(self) -> int:
        """The number of arguments."""
        return max("abc".index(letter) + 1 for letter in re.findall(r"\b[abc]\b", self.call))


def other(type_: Integer, relation: str) -> Integer:
    name = type_.name
    if relation == "signed":
        name = name.removeprefix("u")
    elif relation == "unsigned":
        name = f"u{name.removeprefix('u')}"
    elif relation == "double":
        names = [*DTYPES]
        name = names[names.index(name) + 2]
    return Integer(name)


def _quotient(a: int, b: int) -> int:
    """Round toward zero, as C does."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _is_divisible(type_: Integer, a: int, b: int) -> bool:
    return b != 0 and _quotient(a, b) <= type_.most


def _comparison(call: str, exact: Callable[..., bool]) -> Case:
    """Return the case of a comparison: the number 1, or all bits of an element."""

    def element(a: int, b: int = 0) -> int:
        return -exact(a, b)

    def number(a: int, b: int = 0) -> int:
        return int(exact(a, b))

    return Case(call, element, "signed", one_lane=number)


def cases_of(type_: Integer) -> dict[str, Case]:
    """Return the cases of a type, by names for kernels."""
    bits, wrap, saturate, pattern = type_.bits, type_.wrap, type_.saturate, type_.pattern
    top = 2 ** (bits - 1)

    def defined(value: int) -> int | None:
        """Return the result of arithmetic. C does not define a sum with a sign that overflows."""
        return wrap(value) if not type_.least or wrap(value) == value else None

    cases = {
        "abs": Case("abs(a)", abs, "unsigned"),
        "abs_diff": Case("abs_diff(a, b)", lambda a, b: abs(a - b), "unsigned"),
        "add_sat": Case("add_sat(a, b)", lambda a, b: saturate(a + b)),
        "sub_sat": Case("sub_sat(a, b)", lambda a, b: saturate(a - b)),
        "hadd": Case("hadd(a, b)", lambda a, b: (a + b) >> 1),
        "rhadd": Case("rhadd(a, b)", lambda a, b: (a + b + 1) >> 1),
        "max": Case("max(a, b)", max),
        "min": Case("min(a, b)", min),
        "clamp": Case("clamp(a, b, c)", lambda a, b, c: min(max(a, b), c) if b <= c else None),
        "mul_hi": Case("mul_hi(a, b)", lambda a, b: (a * b) >> bits),
        "mad_hi": Case("mad_hi(a, b, c)", lambda a, b, c: wrap(((a * b) >> bits) + c)),
        "mad_sat": Case("mad_sat(a, b, c)", lambda a, b, c: saturate(a * b + c)),
        "clz": Case("clz(a)", lambda a: bits - pattern(a).bit_length()),
        "ctz": Case("ctz(a)", lambda a: (a & -a).bit_length() - 1 if a else bits),
        "popcount": Case("popcount(a)", lambda a: pattern(a).bit_count()),
        "rotate": Case(
            "rotate(a, b)",
            lambda a, b: wrap(pattern(a) << b % bits | pattern(a) >> -b % bits),
        ),
        "bitselect": Case("bitselect(a, b, c)", lambda a, b, c: a & ~c | b & c),
        "select": Case(
            "select(a, c, b)",
            lambda a, b, c: c if pattern(b) >= top else a,
            second="signed",
            one_lane=lambda a, b, c: c if b else a,
        ),
        "select_unsigned": Case(
            "select(a, c, b)",
            lambda a, b, c: c if pattern(b) >= top else a,
            second="unsigned",
            one_lane=lambda a, b, c: c if b else a,
        ),
        "add": Case("(a + b)", lambda a, b: defined(a + b)),
        "subtract": Case("(a - b)", lambda a, b: defined(a - b)),
        "multiply": Case("(a * b)", lambda a, b: defined(a * b)),
        "negate": Case("(-a)", lambda a: defined(-a)),
        "divide": Case(
            "(a / b)", lambda a, b: _quotient(a, b) if _is_divisible(type_, a, b) else None
        ),
        "modulo": Case(
            "(a % b)",
            lambda a, b: a - b * _quotient(a, b) if _is_divisible(type_, a, b) else None,
        ),
        "left": Case(
            "(a << b)",
            lambda a, b: wrap(a << b % bits),
            second="unsigned",
            one_lane=lambda a, b: wrap(a << b % max(bits, 32)),
        ),
        "right": Case(
            "(a >> b)",
            lambda a, b: a >> b % bits,
            second="unsigned",
            one_lane=lambda a, b: a >> b % max(bits, 32),
        ),
        "less": _comparison("(a < b)", lambda a, b: a < b),
        "at_least": _comparison("(a >= b)", lambda a, b: a >= b),
        "equal": _comparison("(a == b)", lambda a, b: a == b),
        "both": _comparison("(a && b)", lambda a, b: bool(a and b)),
        "not": _comparison("(!a)", lambda a, _b: not a),
        "choice": Case("(a < b ? c : a)", lambda a, b, c: c if a < b else a),
        "as_signed": Case("as_SIGNED(a)", other(type_, "signed").wrap, "signed"),
        "as_unsigned": Case("as_UNSIGNED(a)", pattern, "unsigned"),
    }
    if bits < 64:
        cases["upsample"] = Case(
            "upsample(a, b)", lambda a, b: (a << bits) + b, "double", "unsigned"
        )
    if bits == 32:
        limits = range(-(2**23), 2**23) if type_.least else range(2**24)
        cases["mul24"] = Case(
            "mul24(a, b)", lambda a, b: wrap(a * b) if a in limits and b in limits else None
        )
        cases["mad24"] = Case(
            "mad24(a, b, c)",
            lambda a, b, c: wrap(a * b + c) if a in limits and b in limits else None,
        )
    return cases


def numbers_of(type_: Integer, count: int, seed: int) -> list[int]:
    """Return edges of a type and draws, of all sizes."""
    draw = random.Random(f"{type_.name} {seed}")
    edges = {0, 1, 2, 3, 7, type_.bits, type_.most, type_.most - 1, type_.most // 2, type_.least}
    edges |= {type_.most // 2 + 1, type_.least + 1, -1, -2, -3, -100, 100}
    possible = sorted(each for each in edges if type_.least <= each <= type_.most)
    numbers = []
    for _ in range(count):
        size = draw.randrange(1, type_.bits + 1)
        drawn = type_.wrap(draw.getrandbits(size) * draw.choice((1, -1)))
        numbers.append(draw.choice([drawn, draw.choice(possible)]))
    return numbers


def _vector(type_: Integer, lanes: int) -> str:
    return type_.name if lanes == 1 else f"{type_.name}{lanes}"


def case_value(case: Case, row: Sequence[int], lanes: int) -> int | None:
    """Return the exact result for the numbers a, b and c."""
    exact = case.exact
    if lanes == 1 and case.one_lane:
        exact = case.one_lane
    return exact(*row[: case.count])


class Sweep(NamedTuple):
    """The calls of a case: the types, the arguments by column, and rows that the compiler knows."""

    name: str
    case: Case
    types: tuple[Integer, Integer, Integer]
    result: Integer
    columns: list[list[int]]
    constants: list[tuple[int, ...]]

    def kernel(self, lanes: int) -> str:
        """Return the kernel for vectors, whose thread computes ROWS rows."""
        type_, second, _ = self.types
        rows = len(self.columns[0])
        wide, wide_second, wide_result = (
            _vector(each, lanes) for each in (type_, second, self.result)
        )
        call = self.case.call
        for word in ("signed", "unsigned"):
            call = call.replace(f"as_{word.upper()}", f"as_{_vector(other(type_, word), lanes)}")
        calls = [call]
        for x, y, z in self.constants:
            known = {"b": f"(({wide_second}){second.literal(y)})"}
            known["c"] = f"(({wide}){type_.literal(z)})"
            text = re.sub(r"\b[bc]\b", lambda match, known=known: known[match[0]], call)
            calls += [text, re.sub(r"\ba\b", f"(({wide}){type_.literal(x)})", text)]
        load = [f"vload{lanes}(at, {each})" for each in "ABC"]
        store = f"vstore{lanes}(r, at, out"
        if lanes == 1:
            load, store = [f"{each}[at]" for each in "ABC"], "write(r, at, out"
        lines = [
            f"{wide} a = {load[0]}; {wide_second} b = {load[1]}; {wide} c = {load[2]}; {wide_result} r;"
        ]
        lines += [f"r = {text}; {store} + {at * rows});" for at, text in enumerate(calls)]
        body = "\n".join(lines)
        return (
            f"kernel void k_{self.name}_{lanes}(global const {type_.name} *A, global const {second.name} *B,"
            f" global const {type_.name} *C, global {self.result.name} *out) {{\n"
            f"for (int j = 0; j < {ROWS // lanes}; j++) {{ size_t at = get_global_id(0) * {ROWS // lanes} + j;\n{body}\n}} }}\n"
        )

    def wrong(self, lanes: int, found: Any) -> list[str]:
        """Return the results that are not exact, with the arguments."""
        problems = []
        for number, results in enumerate(found.tolist()):
            for row, each in zip(zip(*self.columns, strict=True), results, strict=True):
                how = "variables"
                if number:
                    known = self.constants[(number - 1) // 2]
                    how = "b and c are constants" if number % 2 else "constants"
                    row = (row[0] if number % 2 else known[0], *known[1:])
                exact = case_value(self.case, row, lanes)
                if exact is not None and each != exact:
                    problems.append(
                        f"{self.case.call} of {_vector(self.types[0], lanes)} {row[: self.case.count]} ({how}): {each}, expected {int(exact)}"
                    )
        return problems


def _sweep(name: str, type_: Integer, rows: int) -> Sweep:
    case = cases_of(type_)[name]
    types = (type_, other(type_, case.second), type_)
    columns = [numbers_of(each, rows, seed) for seed, each in enumerate(types)]
    if name == "clamp":
        for at, (b, c) in enumerate(zip(columns[1], columns[2], strict=True)):
            columns[1][at], columns[2][at] = sorted((b, c))
    known = [row for row in zip(*columns, strict=True) if case_value(case, row, 2) is not None]
    return Sweep(name, case, types, other(type_, case.result), columns, known[-CONSTANTS:])


def wrong_integers(
    type_name: str,
    run: Callable[[str, str, Sequence[Any], int], None],
    rows: int,
    lanes: Sequence[int] = LANES,
) -> list[str]:
    """Return the results of all cases of a type that are not exact, with the arguments.

    Parameters
    ----------
    type_name
        The type of the first argument.
    run
        Runs a kernel of a source: ``run(source, kernel, arrays, threads)``.
    rows
        The combinations of arguments, a multiple of ROWS.
    lanes
        The numbers of elements of the vectors.
    """
    type_ = Integer(type_name)
    sweeps = [_sweep(name, type_, rows) for name in cases_of(type_)]
    results = sorted({each.result.name for each in sweeps})
    source = "//devmod: -cl-std=CL2.0\n" + "".join(
        f"void __attribute__((overloadable)) write({each} r, size_t at, global {each} *out) {{ out[at] = r; }}\n"
        for each in results
    )
    source += "".join(sweep.kernel(each) for sweep in sweeps for each in lanes)
    problems = []
    for sweep in sweeps:
        arrays = [
            np.array(column, DTYPES[each.name])
            for column, each in zip(sweep.columns, sweep.types, strict=True)
        ]
        for each in lanes:
            out = np.full((EXPRESSIONS, rows), 77, DTYPES[sweep.result.name])
            run(source, f"k_{sweep.name}_{each}", [*arrays, out], rows // ROWS)
            problems += sweep.wrong(each, out)
    return problems
