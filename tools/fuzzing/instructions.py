"""Programs of PTX's instructions on the simulated GPU, compared with Python's integers and
fractions.

An input is the seed of a program: each of its instructions has registers of inputs or of results.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from operator import and_, or_, xor
from random import Random
from typing import Any, NamedTuple

import numpy as np

from fuzzing.readers import Breach
from fuzzing.seeds import ROOT

#: The most instructions of a program, and its threads.
INSTRUCTIONS = 25
THREADS = 32
#: The setting of the simulated GPU that has the name of an engine.
ENGINE = "DEVMOD_STANDIN_ENGINE"
#: The bits and the type of a register of each class, and how many have inputs.
CLASSES = {"r": (32, "u32"), "d": (64, "u64"), "f": (32, "f32"), "g": (64, "f64")}
INPUTS = 5
FLOATS = {"f": "f32", "g": "f64"}
MODES = ("rn", "rz", "rm", "rp")
INTEGRAL: dict[str, Callable[[Any], int]] = {
    "rn": round,
    "rz": math.trunc,
    "rm": math.floor,
    "rp": math.ceil,
}

#: The bytes that each mode of prmt takes, for the four values of its selector.
PERMUTATIONS = {
    "f4e": ("0123", "1234", "2345", "3456"),
    "b4e": ("0765", "1076", "2107", "3210"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("0123", "1123", "2223", "3333"),
    "ecr": ("0000", "0111", "0122", "0123"),
    "rc16": ("0101", "2323", "0101", "2323"),
}


@cache
def oracle() -> Any:
    """Return the module extras/simulators/tests/ptx_oracle.py."""
    sys.path.append(str(ROOT / "extras" / "simulators" / "tests"))
    import ptx_oracle  # type: ignore[import-not-found, unused-ignore]

    return ptx_oracle


def permute_by(mode: str) -> Callable[[int, int, int], int]:
    """Return the function of a mode of prmt."""

    def permute(a: int, b: int, selector: int) -> int:
        parts = (b << 32 | a).to_bytes(8, "little")
        places = PERMUTATIONS[mode][selector & 3]
        return int.from_bytes(bytes(parts[int(place)] for place in places), "little")

    return permute


class Form(NamedTuple):
    """An instruction: its opcode, the classes of its result and its operands, its value for some
    operands, which is None if nothing is defined, and what follows the operands.
    """

    opcode: str
    result: str
    operands: str
    value: Callable[..., int | None]
    literal: str = ""


def signed(value: int, bits: int) -> int:
    """Return the low bits of a number as a signed integer."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def low(value: int, bits: int) -> int:
    """Return the low bits of a number."""
    return value & (1 << bits) - 1


class Integers:
    """The forms of instructions of 32 or 64 bits, signed or unsigned."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.bits = random.choice((32, 64))
        self.register = "r" if self.bits == 32 else "d"
        self.sign = random.choice("us")
        self.type = f"{self.sign}{self.bits}"

    def number(self, value: int, bits: int = 0) -> int:
        """Return the integer that a register has."""
        bits = bits or self.bits
        return signed(value, bits) if self.sign == "s" else low(value, bits)

    def plain(self, opcode: str, count: int, function: Callable[..., int]) -> Form:
        """Return the form of an instruction that computes with numbers of one type."""
        return Form(
            f"{opcode}.{self.type}",
            self.register,
            self.register * count,
            lambda *values: low(function(*map(self.number, values)), self.bits),
        )

    def sums(self) -> Form:
        """Return an addition, a product, or both."""
        bits = self.bits
        return self.random.choice(
            [
                self.plain("add", 2, lambda a, b: a + b),
                self.plain("sub", 2, lambda a, b: a - b),
                self.plain("mul.lo", 2, lambda a, b: a * b),
                self.plain("mul.hi", 2, lambda a, b: a * b >> bits),
                self.plain("mad.lo", 3, lambda a, b, c: a * b + c),
                self.plain("mad.hi", 3, lambda a, b, c: (a * b >> bits) + c),
            ]
        )

    def wide(self) -> Form:
        """Return a product of twice as many bits."""

        def product(a: int, b: int, c: int = 0) -> int:
            return low(self.number(a, 32) * self.number(b, 32) + c, 64)

        name, operands = self.random.choice((("mul", "rr"), ("mad", "rrd")))
        return Form(f"{name}.wide.{self.sign}32", "d", operands, product)

    def division(self) -> Form:
        """Return a quotient or a rest."""
        name = self.random.choice(("div", "rem"))

        def value(a: int, b: int) -> int | None:
            a, b = self.number(a), self.number(b)
            if b == 0 or (b == -1 and a == -(1 << self.bits - 1)):
                return None
            quotient = abs(a) // abs(b)
            if (a < 0) != (b < 0):
                quotient = -quotient
            return low(quotient if name == "div" else a - quotient * b, self.bits)

        return Form(f"{name}.{self.type}", self.register, self.register * 2, value)

    def choice(self) -> Form:
        """Return a minimum, a maximum, a sum of differences, a comparison or a selection."""
        bits = self.bits
        compare = self.random.choice(
            [("lt", int.__lt__), ("le", int.__le__), ("gt", int.__gt__), ("eq", int.__eq__)]
        )
        return self.random.choice(
            [
                self.plain("min", 2, min),
                self.plain("max", 2, max),
                Form(
                    f"set.{compare[0]}.u32.{self.type}",
                    "r",
                    self.register * 2,
                    lambda a, b: low(-compare[1](self.number(a), self.number(b)), 32),
                ),
                Form(
                    f"sad.{self.sign}32",
                    "r",
                    "rrr",
                    lambda a, b, c: low(abs(self.number(a, 32) - self.number(b, 32)) + c, 32),
                ),
                Form(
                    f"slct.b{bits}.s32",
                    self.register,
                    self.register * 2 + "r",
                    lambda a, b, c: a if signed(c, 32) >= 0 else b,
                ),
            ]
        )

    def logic(self) -> Form:
        """Return an operation of bits, or a shift."""
        bits = self.bits
        register = self.register
        name, function = self.random.choice((("and", and_), ("or", or_), ("xor", xor)))
        return self.random.choice(
            [
                Form(f"{name}.b{bits}", register, register * 2, function),
                Form(f"not.b{bits}", register, register, lambda a: low(~a, bits)),
                Form(f"cnot.b{bits}", register, register, lambda a: int(a == 0)),
                Form(
                    f"shl.b{bits}",
                    register,
                    register + "r",
                    lambda a, b: low(a << b, bits) if b < bits else 0,
                ),
                Form(
                    f"shr.{self.type}",
                    register,
                    register + "r",
                    lambda a, b: low(self.number(a) >> min(b, bits), bits),
                ),
            ]
        )

    def fields(self) -> Form:
        """Return an operation of a field of bits, or of all bits in an order."""
        bits = self.bits
        register = self.register

        def extract(a: int, start: int, length: int) -> int:
            start, length = start & 255, length & 255
            if not length:
                return 0
            end = min(start + length, bits)
            field = low(a >> start, end - start) if end > start else 0
            if self.sign == "s" and a >> min(start + length - 1, bits - 1) & 1:
                field |= -1 << max(end - start, 0)
            return low(field, bits)

        def insert(a: int, b: int, start: int, length: int) -> int:
            mask = low((1 << (length & 255)) - 1 << (start & 255), bits)
            return b & ~mask | a << (start & 255) & mask

        def highest(a: int) -> int:
            if self.sign == "s" and a >> bits - 1:
                a = low(~a, bits)
            return low(a.bit_length() - 1, 32)

        return self.random.choice(
            [
                Form(f"bfe.{self.type}", register, register + "rr", extract),
                Form(f"bfi.b{bits}", register, register * 2 + "rr", insert),
                Form(f"bfind.{self.type}", "r", register, highest),
                Form(
                    f"bfind.shiftamt.{self.type}",
                    "r",
                    register,
                    lambda a: low(bits - 1 - highest(a), 32) if highest(a) < bits else highest(a),
                ),
                Form(f"brev.b{bits}", register, register, lambda a: int(f"{a:0{bits}b}"[::-1], 2)),
                Form(f"clz.b{bits}", "r", register, lambda a: bits - a.bit_length()),
                Form(f"popc.b{bits}", "r", register, int.bit_count),
            ]
        )

    def bytes_of_words(self) -> Form:
        """Return an operation of 32 bits that takes bytes or halves."""
        mode = self.random.choice(("clamp", "wrap"))
        direction = self.random.choice("lr")
        table = self.random.randrange(256)
        high = self.random.random() < 0.5
        other = self.random.choice("us")
        name = self.random.choice([*PERMUTATIONS])

        def permute(a: int, b: int, selector: int) -> int:
            parts = (b << 32 | a).to_bytes(8, "little")
            result = 0
            for place in range(4):
                nibble = selector >> 4 * place & 15
                part = parts[nibble & 7]
                if nibble & 8:
                    part = 255 * (part >> 7)
                result |= part << 8 * place
            return result

        def funnel(a: int, b: int, count: int) -> int:
            count = min(count, 32) if mode == "clamp" else count & 31
            if direction == "l":
                count = 32 - count
            return low((b << 32 | a) >> count, 32)

        def second(value: int) -> int:
            return signed(value, 8) if other == "s" else value

        def dot(a: int, b: int, c: int) -> int:
            pairs = zip(a.to_bytes(4, "little"), b.to_bytes(4, "little"), strict=True)
            return low(sum(self.number(x, 8) * second(y) for x, y in pairs) + c, 32)

        def dot_of_halves(a: int, b: int, c: int) -> int:
            factors = b.to_bytes(4, "little")[2 * high :]
            products = self.number(a, 16) * second(factors[0])
            products += self.number(a >> 16, 16) * second(factors[1])
            return low(products + c, 32)

        def extend(a: int, count: int) -> int:
            count = min(count, 32) if mode == "clamp" else count & 31
            return low(self.number(a, count), 32) if count else 0

        def look_up(a: int, b: int, c: int) -> int:
            return sum(
                (table >> ((a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1) & 1) << bit
                for bit in range(32)
            )

        def short_product(a: int, b: int) -> int:
            product = self.number(a, 24) * self.number(b, 24)
            return low(product >> 16 if high else product, 32)

        return self.random.choice(
            [
                Form("prmt.b32", "r", "rrr", permute),
                Form(f"prmt.b32.{name}", "r", "rrr", permute_by(name)),
                Form(f"shf.{direction}.{mode}.b32", "r", "rrr", funnel),
                Form(f"dp4a.{self.sign}32.{other}32", "r", "rrr", dot),
                Form(
                    f"dp2a.{'hi' if high else 'lo'}.{self.sign}32.{other}32",
                    "r",
                    "rrr",
                    dot_of_halves,
                ),
                Form(f"szext.{mode}.{self.sign}32", "r", "rr", extend),
                self.halves(),
                Form("lop3.b32", "r", "rrr", look_up, f", {table}"),
                Form(f"mul24.{'hi' if high else 'lo'}.{self.sign}32", "r", "rr", short_product),
            ]
        )

    def halves(self) -> Form:
        """Return an operation of two integers of 16 bits."""
        name, function = self.random.choice((("add", int.__add__), ("min", min), ("max", max)))

        def value(a: int, b: int) -> int:
            parts = [
                low(function(self.number(a >> shift, 16), self.number(b >> shift, 16)), 16)
                for shift in (0, 16)
            ]
            return parts[0] | parts[1] << 16

        return Form(f"{name}.{self.sign}16x2", "r", "rr", value)

    def conversion(self) -> Form:
        """Return a conversion to an integer of another size."""
        bits = self.random.choice((8, 16, 32, 64))
        sign = self.random.choice("us")
        # ptxas refuses saturation to a type that has all values of the source.
        has_all = bits - (sign == "s") >= self.bits - (self.sign == "s")
        has_all = has_all and (sign == "s" or self.sign == "u")
        saturates = not has_all and self.random.random() < 0.5
        result = "r" if bits < 64 else "d"

        def value(a: int) -> int:
            number = self.number(a)
            least = -(1 << bits - 1) if sign == "s" else 0
            if saturates:
                number = min(max(number, least), least + (1 << bits) - 1)
            number = signed(number, bits) if sign == "s" else low(number, bits)
            return low(number, CLASSES[result][0])

        opcode = f"cvt{'.sat' * saturates}.{sign}{bits}.{self.type}"
        return Form(opcode, result, self.register, value)


def arithmetic(random: Random) -> Form:
    """Return an operation of floats with a rounding mode."""
    register = random.choice("ffg")
    kind = FLOATS[register]
    name = random.choice(("add", "sub", "mul", "fma", "fma", "div", "rcp", "sqrt"))
    mode = random.choice(MODES)
    ftz = kind == "f32" and random.random() < 0.3
    sat = kind == "f32" and name in ("add", "mul", "fma") and random.random() < 0.2
    arity, _ = oracle().OPERATIONS[name]

    def value(*operands: int) -> int | None:
        result: int | None = oracle().operate(name, kind, mode, *operands, ftz=ftz, sat=sat)
        return result

    opcode = f"{name}.{mode}{'.ftz' * ftz}{'.sat' * sat}.{kind}"
    return Form(opcode, register, register * arity, value)


def extreme(random: Random) -> Form:
    """Return a minimum or a maximum of floats. A number comes before NaN, and -0 before +0."""
    register = random.choice("fg")
    kind = FLOATS[register]
    name = random.choice(("min", "max"))
    ftz = kind == "f32" and random.random() < 0.3

    def rank(bits: int) -> int:
        sign = oracle().FORMATS[kind].sign
        return ~(bits & ~sign) if bits & sign else bits

    def value(*operands: int) -> int | None:
        if ftz:
            operands = tuple(oracle().flushed(each, kind) for each in operands)
        numbers = [each for each in operands if oracle().decode(each, kind) is not None]
        if not numbers:
            return None
        return min(numbers, key=rank) if name == "min" else max(numbers, key=rank)

    return Form(f"{name}{'.ftz' * ftz}.{kind}", register, register * 2, value)


def pair_arithmetic(random: Random) -> Form:
    """Return an operation of two halves."""
    name, kind = random.choice((("add", "f16"), ("mul", "f16"), ("fma", "f16"), ("fma", "bf16")))
    arity, _ = oracle().OPERATIONS[name]

    def value(*operands: int) -> int | None:
        halves = [
            oracle().operate(name, kind, "rn", *(low(each >> shift, 16) for each in operands))
            for shift in (0, 16)
        ]
        if None in halves:
            return None
        return int(halves[0] | halves[1] << 16)

    return Form(f"{name}.rn.{kind}x2", "r", "r" * arity, value)


def float_conversion(random: Random) -> Form:
    """Return a conversion from or to a float."""
    register = random.choice("fg")
    kind = FLOATS[register]
    mode = random.choice(MODES)
    integers = Integers(random)
    choice = random.randrange(3)
    if choice == 0:

        def of_integer(a: int) -> int | None:
            fraction = oracle().Fraction(integers.number(a))
            number = oracle().Value(fraction < 0, abs(fraction))
            result: int | None = oracle().encode(number, kind, mode)
            return result

        return Form(f"cvt.{mode}.{kind}.{integers.type}", register, integers.register, of_integer)
    if choice == 1:
        ftz = kind == "f32" and random.random() < 0.3
        opcode = f"cvt.{mode}i{'.ftz' * ftz}.{integers.type}.{kind}"
        to_integer = integer_of(kind, integers, mode, ftz=ftz)
        return Form(opcode, integers.register, register, to_integer)
    result, target, rounding = ("g", "f64", "") if register == "f" else ("f", "f32", f".{mode}")

    def convert(a: int) -> int | None:
        value: int | None = oracle().convert(a, kind, target, mode)
        return value

    return Form(f"cvt{rounding}.{target}.{kind}", result, register, convert)


def integer_of(
    kind: str, integers: Integers, mode: str, *, ftz: bool
) -> Callable[[int], int | None]:
    """Return the function for the integer of a float, rounded and saturated."""
    least = -(1 << integers.bits - 1) if integers.sign == "s" else 0
    most = least + (1 << integers.bits) - 1

    def convert(bits: int) -> int | None:
        value = oracle().decode(oracle().flushed(bits, kind) if ftz else bits, kind)
        if value is None:
            return None
        if value.size is oracle().INFINITE:
            return low(least if value.negative else most, integers.bits)
        number: int = INTEGRAL[mode](value.number)
        return low(min(max(number, least), most), integers.bits)

    return convert


def form(random: Random) -> Form:
    """Return an instruction."""
    integers = Integers(random)
    makers: list[Callable[[], Form]] = [
        integers.sums,
        integers.wide,
        integers.division,
        integers.choice,
        integers.logic,
        integers.fields,
        integers.bytes_of_words,
        integers.conversion,
        lambda: extreme(random),
        lambda: pair_arithmetic(random),
    ]
    makers += [lambda: arithmetic(random)] * 4
    makers += [lambda: float_conversion(random)] * 2
    return random.choice(makers)()


def operand(random: Random, register: str) -> int:
    """Return the bits of an input, which is often at an end of its type."""
    bits, _ = CLASSES[register]
    if register in FLOATS:
        significand: int = oracle().FORMATS[FLOATS[register]].significand
        exponents = bits - 1 - significand
        exponent: int = random.choice(
            [
                random.getrandbits(exponents),
                random.choice((0, 1, (1 << exponents) - 1, (1 << exponents) - 2)),
                (1 << exponents - 1) + random.randrange(-8, 8),
            ]
        )
        ends = (0, 1, (1 << significand) - 1, 1 << significand - 1)
        rest: int = random.choice([random.getrandbits(significand), random.choice(ends)])
        return random.getrandbits(1) << bits - 1 | exponent << significand | rest
    return random.choice(
        [
            random.getrandbits(bits),
            low(random.randrange(-64, 64), bits),
            random.choice((0, 1, bits - 1, bits, 1 << bits - 1, (1 << bits) - 1)),
        ]
    )


class Program:
    """Instructions, and the values of each register and thread, which are None if undefined."""

    def __init__(self, data: bytes) -> None:
        random = Random(data)
        self.lines: list[str] = []
        self.values: dict[str, list[list[int | None]]] = {
            register: [[operand(random, register) for _ in range(THREADS)] for _ in range(INPUTS)]
            for register in CLASSES
        }
        #: The lines that write each register, and those of NaN, whose bits are not compared.
        self.written: dict[str, int] = {}
        for _ in range(random.randrange(1, INSTRUCTIONS + 1)):
            self.add(form(random), random)

    def add(self, chosen: Form, random: Random) -> None:
        """Append an instruction."""
        places = [
            (register, random.randrange(len(self.values[register]))) for register in chosen.operands
        ]
        columns = [self.values[register][number] for register, number in places]
        results = [
            None if None in row else chosen.value(*row) for row in zip(*columns, strict=True)
        ]
        target = f"%{chosen.result}{len(self.values[chosen.result])}"
        sources = ", ".join(f"%{register}{number}" for register, number in places)
        self.written[target] = len(self.lines)
        self.lines.append(f"{chosen.opcode} {target}, {sources}{chosen.literal};")
        self.values[chosen.result].append(results)

    def text(self) -> str:
        """Return the program as PTX, with an argument for each class of inputs and of results."""
        head = [".version 8.6", ".target sm_90", ".address_size 64", ".visible .entry k("]
        head.append(", ".join(f".param .u64 p{number}" for number in range(8)) + ") {")
        loads = [".reg .b64 %x, %y; .reg .b32 %t; mov.u32 %t, %tid.x;"]
        stores: list[str] = []
        for number, (register, (bits, kind)) in enumerate(CLASSES.items()):
            count = len(self.values[register])
            head.append(f".reg .{kind.replace('u', 'b')} %{register}<{count}>;")
            for first, lines, amount in ((number, loads, INPUTS), (number + 4, stores, count)):
                lines.append(f"ld.param.u64 %x, [p{first}];")
                lines.append(f"mul.wide.u32 %y, %t, {amount * bits // 8}; add.u64 %x, %x, %y;")
            for place in range(INPUTS):
                loads.append(f"ld.global.{kind} %{register}{place}, [%x + {place * bits // 8}];")
            for place in range(count):
                stores.append(f"st.global.{kind} [%x + {place * bits // 8}], %{register}{place};")
        return "\n".join([*head, *loads, *self.lines, *stores, "ret; }"])

    def run(self, engine: str) -> dict[str, Any]:
        """Return the values of each class on the simulated GPU, a row for each thread."""
        from devmod_simulators.ptx import run_ptx

        inputs = []
        outputs = {}
        for register, (bits, _) in CLASSES.items():
            dtype = f"u{bits // 8}"
            inputs.append(np.array(self.values[register][:INPUTS], dtype).T.copy())
            outputs[register] = np.zeros((THREADS, len(self.values[register])), dtype)
        before = os.environ.get(ENGINE, "")
        os.environ[ENGINE] = engine
        try:
            run_ptx(self.text(), "k", 1, THREADS, [*inputs, *outputs.values()])
        finally:
            os.environ[ENGINE] = before
        return outputs


def compare_instructions(data: bytes) -> None:
    """Run the program of a seed, and compare the first register that differs: interpreted with the
    values, and compiled with interpreted.
    """
    program = Program(data)
    outputs = program.run("interpreter")
    compare_values(program, outputs)
    if find_spec("llvmlite") is not None:
        compare_engines(program, outputs, program.run("compiled"))


def compare_engines(program: Program, wanted: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Raise the error of the first register that differs between engines. NaN is one number."""
    for target, line in program.written.items():
        register, number = target[1], int(target[2:])
        want = wanted[register][:, number]
        got = outputs[register][:, number]
        equal = got == want
        if register in FLOATS:
            of = f"f{want.itemsize}"
            equal |= np.isnan(got.view(of)) & np.isnan(want.view(of))
        if not equal.all():
            thread = int(np.argmin(equal))
            raise Breach(
                f"{program.lines[line]} gives {int(got[thread]):#x} compiled and "
                f"{int(want[thread]):#x} interpreted; thread {thread}"
            )


def compare_values(program: Program, outputs: dict[str, Any]) -> None:
    """Raise the error of the first register that has another value."""
    for target, line in program.written.items():
        register, number = target[1], int(target[2:])
        got = outputs[register][:, number].tolist()
        for thread, (bits, want) in enumerate(
            zip(got, program.values[register][number], strict=True)
        ):
            if want is not None and bits != want:
                operands = program.lines[line].partition(", ")[2]
                raise Breach(
                    f"{program.lines[line]} gives {bits:#x}, not {want:#x}; "
                    f"thread {thread}, operands {operands}"
                )
