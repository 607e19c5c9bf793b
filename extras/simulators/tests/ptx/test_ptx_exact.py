"""Arithmetic and conversions of floats with each rounding mode at the ends of their ranges,
compared with Python's fractions.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest
from ptx_oracle import FORMATS, OPERATIONS, Value, convert, decode, encode, operate
from ptx_snippets import run_snippet

MODES = ("rn", "rz", "rm", "rp")
#: The modes of each type.
ALL_MODES = {"f16": ("rn",), "bf16": ("rn",), "f32": MODES, "f64": MODES}


def number(random: Random, kind: str) -> int:
    """Return the bits of a number whose exponent and significand are likely at an end."""
    form = FORMATS[kind]
    bits = form.significand
    most = form.infinity >> bits
    middle = most // 2
    exponent = random.choice(
        [
            random.randrange(most + 1),
            random.choice([0, 1, 2, bits, most - 1, most - 2]),
            middle + random.randrange(-3, 4),
            max(middle // 2 - random.randrange(3), 0),
        ]
    )
    significand = random.choice(
        [
            random.getrandbits(bits),
            0,
            1,
            (1 << bits) - 1,
            1 << bits - 1,
            1 << random.randrange(bits),
            random.getrandbits(bits) >> bits // 2 << bits // 2,
        ]
    )
    if exponent == most and random.random() < 0.7:
        significand = 0
    return random.getrandbits(1) << form.bits - 1 | exponent << bits | significand


def fused_operands(random: Random, kind: str) -> tuple[int, int, int]:
    """Return operands whose product is near the addend, near the middle of two numbers, or far
    away.
    """
    a, b, c = (number(random, kind) for _ in range(3))
    x, y = decode(a, kind), decode(b, kind)
    if x and y and None not in (x.size, y.size) and random.random() < 0.4:
        value = x.number * y.number
        near = encode(x._replace(negative=value < 0, size=abs(value)), kind, "rn")
        assert near is not None
        c = near ^ random.getrandbits(1) << FORMATS[kind].bits - 1
        c ^= random.choice([0, 0, 1, 2])
    return a, b, c


def operands(name: str, kind: str, count: int) -> list[tuple[int, ...]]:
    random = Random(f"{name} {kind}")
    if name == "fma":
        return [fused_operands(random, kind) for _ in range(count)]
    arity = OPERATIONS[name][0]
    return [tuple(number(random, kind) for _ in range(arity)) for _ in range(count)]


def differences(
    opcode: str,
    kind: str,
    rows: list[tuple[int, ...]],
    expected: list[int | None],
    target: str = "",
) -> list[str]:
    """Return the rows whose results are not the expected bits. Any NaN is right for None."""
    target = target or kind
    arity = len(rows[0])
    source = f"u{FORMATS[kind].bits}"
    names = ", ".join(f"%{letter}" for letter in "abc"[:arity])
    columns = [np.array(column, numpy_bits(kind)) for column in zip(*rows, strict=True)]
    got = run_snippet(
        f"{opcode} %o, {names};",
        [(source, column) for column in columns],
        f"u{FORMATS[target].bits}",
    )
    found = []
    for row, want, bits in zip(rows, expected, got.tolist(), strict=True):
        is_same = decode(bits, target) is None if want is None else bits == want
        if not is_same:
            found.append(f"{opcode} {[*map(hex, row)]}: {bits:#x}, not {want and hex(want)}")
    return found


def numpy_bits(kind: str) -> np.dtype[np.unsignedinteger]:
    return np.dtype(f"u{FORMATS[kind].bits // 8}")


CASES = [
    (name, kind, mode)
    for name, kind in product(OPERATIONS, FORMATS)
    for mode in ALL_MODES[kind]
    if name in ("add", "sub", "mul", "fma") or kind in ("f32", "f64")
]


@pytest.mark.volume_but("fma-bf16-rn")
@pytest.mark.parametrize(("name", "kind", "mode"), CASES)
def test_results_are_rounded_once(name: str, kind: str, mode: str) -> None:
    rows = operands(name, kind, 700)
    expected = [operate(name, kind, mode, *row) for row in rows]
    assert differences(f"{name}.{mode}.{kind}", kind, rows, expected) == []


@pytest.mark.parametrize(("name", "kind"), [*product(("add", "mul", "fma"), ("f16", "f32"))])
def test_results_are_flushed_and_saturated(name: str, kind: str) -> None:
    rows = operands(name, kind, 300)
    for mode in ALL_MODES[kind]:
        for ftz, sat in ((True, False), (False, True), (True, True)):
            opcode = f"{name}.{mode}{'.ftz' * ftz}{'.sat' * sat}.{kind}"
            expected = [operate(name, kind, mode, *row, ftz=ftz, sat=sat) for row in rows]
            assert differences(opcode, kind, rows, expected) == []


@pytest.mark.parametrize("name", ["div", "rcp", "sqrt"])
def test_quotients_and_roots_are_flushed(name: str) -> None:
    rows = operands(name, "f32", 300)
    for mode in MODES:
        expected = [operate(name, "f32", mode, *row, ftz=True) for row in rows]
        assert differences(f"{name}.{mode}.ftz.f32", "f32", rows, expected) == []


@pytest.mark.parametrize(("source", "target"), [*product(FORMATS, FORMATS)])
def test_conversions_are_rounded_once(source: str, target: str) -> None:
    if source == target:
        return
    random = Random(f"{source} {target}")
    rows = [(number(random, source),) for _ in range(600)]
    narrows = FORMATS[source].significand > FORMATS[target].significand
    for mode, ftz, sat in product(MODES, (False, True), (False, True)):
        if (ftz and "f32" not in (source, target)) or (sat and "bf16" in (source, target)):
            continue
        rounding = f".{mode}" if narrows or {source, target} == {"f16", "bf16"} else ""
        opcode = f"cvt{rounding}{'.ftz' * ftz}{'.sat' * sat}.{target}.{source}"
        expected = [convert(row[0], source, target, mode, ftz=ftz, sat=sat) for row in rows]
        assert differences(opcode, source, rows, expected, target) == []


@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_conversions_saturate_to_the_largest_finite_number(target: str) -> None:
    numbers = np.array([3.4e38, -3.4e38, np.inf, -np.inf, 1.5, -2.5, np.nan], np.float32)
    form = FORMATS[target]
    largest = form.infinity - 1
    for suffix, low in (("", form.sign | largest), (".relu", 0)):
        opcode = f"cvt.rn{suffix}.satfinite.{target}.f32"
        rows = [(bits,) for bits in numbers.view(np.uint32).tolist()]
        plain = [convert(row[0], "f32", target, "rn") for row in rows]
        plain[:4] = [largest, low, largest, low]
        if suffix:
            plain[5] = 0
        assert differences(opcode, "f32", rows, plain, target) == []


@pytest.mark.parametrize("mode", MODES)
def test_pairs_are_rounded_as_single_numbers(mode: str) -> None:
    for name in ("add", "mul", "fma"):
        rows = operands(name, "f32", 400)
        for ftz in (False, True):
            expected = [operate(name, "f32", mode, *row, ftz=ftz) for row in rows]
            columns = [
                np.array(column, np.uint32).view(np.uint64) for column in zip(*rows, strict=True)
            ]
            letters = ", ".join(f"%{letter}" for letter in "abc"[: len(columns)])
            got = run_snippet(
                f"{name}.{mode}{'.ftz' * ftz}.f32x2 %o, {letters};",
                [("u64", column) for column in columns],
                "u64",
            )
            for row, want, bits in zip(rows, expected, got.view(np.uint32).tolist(), strict=True):
                is_same = decode(bits, "f32") is None if want is None else bits == want
                assert is_same, (name, [*map(hex, row)], hex(bits), want and hex(want))


@pytest.mark.parametrize("mode", MODES)
def test_a_narrower_operand_is_exact(mode: str) -> None:
    random = Random(mode)
    wide = np.array([number(random, "f32") for _ in range(300)], np.uint32)
    first, second = (
        np.array([number(random, "f16") for _ in range(300)], np.uint16) for _ in range(2)
    )
    inputs = [("u16", first), ("u16", second), ("u32", wide)]
    for name, text in (("add", "%a, %c"), ("fma", "%a, %b, %c")):
        got = run_snippet(f"{name}.{mode}.f32.f16 %o, {text};", inputs, "u32")
        for a, b, c, bits in zip(
            first.tolist(), second.tolist(), wide.tolist(), got.tolist(), strict=True
        ):
            narrow = [convert(each, "f16", "f32", "rn") for each in (a, b)]
            want = None
            if None not in narrow:
                chosen = [*narrow[: 2 if name == "fma" else 1], c]
                want = operate(name, "f32", mode, *chosen)  # type: ignore[arg-type]
            is_same = decode(bits, "f32") is None if want is None else bits == want
            assert is_same or None in narrow, (name, hex(a), hex(b), hex(c), hex(bits))


def test_a_sign_of_a_half_is_changed_where_it_is_flushed() -> None:
    halves = np.array([0x0001, 0x8001, 0x3C00, 0x83FF, 0x0400], np.uint16)
    got = run_snippet("neg.ftz.f16 %o, %a;", [("u16", halves)], "u16")
    assert got.tolist() == [0x8000, 0x0000, 0xBC00, 0x0000, 0x8400]


def test_a_sum_that_float64_rounds_to_the_middle_of_two_float32() -> None:
    # (1 + 2**-12)**2 + 2**-60 is above that middle.
    row = tuple(encode(Value(False, Fraction(each)), "f32", "rn") for each in (1 + 2**-12, 2**-60))
    factor, addend = map(int, row)  # type: ignore[arg-type]
    rows = [(factor, factor, addend)]
    assert differences("fma.rn.f32", "f32", rows, [0x3F801001]) == []
