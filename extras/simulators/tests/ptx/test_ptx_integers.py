"""Integer instructions of the interpreter of PTX, compared with Python's integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from ptx_snippets import numpy_type, run_alike, run_snippet

EDGES = [
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    100,
    255,
    0x7F,
    0x80,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x12345678,
    -1,
    -2,
    -3,
    -8,
    -100,
    -32768,
]


def values(kind: str, seed: int) -> list[int]:
    """Return edges and random numbers of a type, in a random order."""
    bits = 8 * numpy_type(kind).itemsize
    random = np.random.default_rng(seed)
    numbers = [
        *EDGES,
        1 << (bits - 1),
        (1 << (bits - 1)) - 1,
        (1 << (bits - 1)) + 1,
        (1 << bits) - 1,
    ]
    numbers = numbers * 3 + [
        int.from_bytes(random.bytes(8), "little") >> int(shift)
        for shift in random.integers(0, 64, 100)
    ]
    return [wrap(numbers[place], kind) for place in random.permutation(len(numbers))]


def wrap(number: int, kind: str) -> int:
    """Return a number modulo the range of its type."""
    bits = 8 * numpy_type(kind).itemsize
    number &= (1 << bits) - 1
    return number - (1 << bits) if kind.startswith("s") and number >> (bits - 1) else number


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def field(bits: int, is_signed: bool = False) -> Callable[..., int]:
    """The bits past the end are copies of the sign, for signed numbers, or zeros."""

    def extract(a: int, start: int, count: int) -> int:
        start, count = start & 255, count & 255
        past = 0
        if is_signed and count:
            past = a >> min(start + count, bits) - 1 & 1
        result = 0
        for place in range(bits):
            inside = place < count and place + start < bits
            result |= (a >> place + start & 1 if inside else past) << place
        return result

    return extract


def inserted(bits: int) -> Callable[..., int]:
    def insert(a: int, b: int, start: int, count: int) -> int:
        mask = ((1 << (count & 255)) - 1) << (start & 255)
        return (b & ~mask) | ((a << (start & 255)) & mask)

    return insert


def permuted(a: int, b: int, selector: int) -> int:
    data = (b << 32 | a).to_bytes(8, "little")
    result = 0
    for place in range(4):
        nibble = selector >> 4 * place & 15
        byte = data[nibble & 7]
        if nibble & 8:
            byte = 255 if byte > 127 else 0
        result |= byte << 8 * place
    return result


def dot(signs: str, a: int, b: int, c: int) -> int:
    x, y = (
        [
            part - 256 if sign == "s" and part > 127 else part
            for part in (n & 0xFFFFFFFF).to_bytes(4, "little")
        ]
        for sign, n in zip(signs, (a, b), strict=True)
    )
    return c + sum(p * q for p, q in zip(x, y, strict=True))


def lookup(table: int) -> Callable[..., int]:
    return lambda a, b, c: sum(
        (table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1) << k
        for k in range(32)
    )


def highest(number: int) -> int:
    number = ~number if number < 0 else number
    return number.bit_length() - 1


def clamped(kind: str, number: int) -> int:
    limits = np.iinfo(numpy_type(kind))
    return max(int(limits.min), min(int(limits.max), number))


SIX = "u16 s16 u32 s32 u64 s64"
#: Instructions of several types t, of n bits; w is a type of twice as many.
FAMILIES: list[tuple[str, str, str, Callable[..., int]]] = [
    ("add.{t}", SIX, "t t -> t", lambda a, b: a + b),
    ("sub.{t}", "u16 s32 u64", "t t -> t", lambda a, b: a - b),
    ("mul.lo.{t}", "u16 s32 u64 s64", "t t -> t", lambda a, b: a * b),
    ("mul.wide.{t}", "u16 s16 u32 s32", "t t -> w", lambda a, b: a * b),
    ("mad.lo.{t}", "u16 s32 s64", "t t t -> t", lambda a, b, c: a * b + c),
    ("mad.wide.{t}", "u16 u32 s32", "t t w -> w", lambda a, b, c: a * b + c),
    ("div.{t}", SIX, "t t -> t", lambda a, b: truncated(a, b) if b else -1),
    ("rem.{t}", SIX, "t t -> t", lambda a, b: a - b * truncated(a, b) if b else a),
    ("min.{t}", SIX, "t t -> t", min),
    ("max.{t}", SIX, "t t -> t", max),
    ("abs.{t}", "s16 s32 s64", "t -> t", abs),
    ("neg.{t}", "s16 s32 s64", "t -> t", lambda a: -a),
    ("sad.{t}", "u16 u32 s32 s64", "t t t -> t", lambda a, b, c: abs(a - b) + c),
    ("popc.b{n}", "u32 u64", "t -> u32", lambda a: a.bit_count()),
    ("bfind.{t}", "u32 s32 u64 s64", "t -> u32", highest),
    ("shl.b{n}", "u16 u32 u64", "t u32 -> t", lambda a, b: a << min(b, 64)),
    ("shr.{t}", SIX, "t u32 -> t", lambda a, b: a >> min(b, 64)),
    ("and.b{n}", "u16 u32 u64", "t t -> t", lambda a, b: a & b),
]
#: Those whose results depend on n.
SIZED: list[tuple[str, str, str, Callable[[int], Callable[..., int]]]] = [
    ("mul.hi.{t}", SIX, "t t -> t", lambda n: lambda a, b: a * b >> n),
    ("mad.hi.{t}", "u32 s32 s64", "t t t -> t", lambda n: lambda a, b, c: (a * b >> n) + c),
    ("clz.b{n}", "u32 u64", "t -> u32", lambda n: lambda a: n - a.bit_length()),
    ("brev.b{n}", "u32 u64", "t -> t", lambda n: lambda a: int(f"{a:0{n}b}"[::-1], 2)),
    ("bfe.{t}", "u32 u64", "t u32 u32 -> t", field),
    ("bfi.b{n}", "u32 u64", "t t u32 u32 -> t", inserted),
]
CASES: list[tuple[str, str, Callable[..., int]]] = [
    ("add.sat.s32", "s32 s32 -> s32", lambda a, b: clamped("s32", a + b)),
    ("sub.sat.s32", "s32 s32 -> s32", lambda a, b: clamped("s32", a - b)),
    ("mad.hi.sat.s32", "s32 s32 s32 -> s32", lambda a, b, c: clamped("s32", (a * b >> 32) + c)),
    ("mul24.lo.s32", "s32 s32 -> s32", lambda a, b: wrap24(a) * wrap24(b)),
    ("mul24.hi.u32", "u32 u32 -> u32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16),
    ("mad24.lo.u32", "u32 u32 u32 -> u32", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    ("dp4a.u32.u32", "u32 u32 u32 -> u32", lambda a, b, c: dot("uu", a, b, c)),
    ("dp4a.s32.s32", "s32 s32 s32 -> s32", lambda a, b, c: dot("ss", a, b, c)),
    ("dp4a.s32.u32", "s32 u32 s32 -> s32", lambda a, b, c: dot("su", a, b, c)),
    ("bfind.shiftamt.u32", "u32 -> u32", lambda a: 31 - highest(a) if a else -1),
    ("bfe.s32", "s32 u32 u32 -> s32", field(32, True)),
    ("prmt.b32", "u32 u32 u32 -> u32", permuted),
    ("prmt.b32.f4e", "u32 u32 u32 -> u32", lambda a, b, c: (b << 32 | a) >> 8 * (c & 3)),
    ("prmt.b32.rc16", "u32 u32 u32 -> u32", lambda a, b, c: (a >> 16 * (c & 1) & 0xFFFF) * 0x10001),
    ("shf.l.wrap.b32", "u32 u32 u32 -> u32", lambda a, b, c: (b << 32 | a) << (c & 31) >> 32),
    ("shf.r.wrap.b32", "u32 u32 u32 -> u32", lambda a, b, c: (b << 32 | a) >> (c & 31)),
    ("shf.l.clamp.b32", "u32 u32 u32 -> u32", lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32),
    ("shf.r.clamp.b32", "u32 u32 u32 -> u32", lambda a, b, c: (b << 32 | a) >> min(c, 32)),
    ("or.b32", "u32 u32 -> u32", lambda a, b: a | b),
    ("xor.b64", "u64 u64 -> u64", lambda a, b: a ^ b),
    ("not.b32", "u32 -> u32", lambda a: ~a),
    ("cnot.b32", "u32 -> u32", lambda a: int(a == 0)),
    (
        "szext.clamp.s32",
        "s32 u32 -> s32",
        lambda a, b: wrap(a << (32 - min(b, 32)), "s32") >> (32 - min(b, 32)) if b else 0,
    ),
    ("szext.wrap.u32", "u32 u32 -> u32", lambda a, b: a & ((1 << (b & 31)) - 1)),
    ("bmsk.clamp.b32", "u32 u32 -> u32", lambda a, b: ((1 << min(b, 64)) - 1) << min(a, 64)),
    (
        "add.u16x2",
        "u32 u32 -> u32",
        lambda a, b: (a + b & 0xFFFF) | ((a >> 16) + (b >> 16) & 0xFFFF) << 16,
    ),
]


def family(opcode: str, types: str, form: str) -> Iterator[tuple[str, str, int]]:
    """Return the instructions of a family, their types, and their bits."""
    for kind in types.split():
        bits = int(kind[1:])
        wide = f"{kind[0]}{2 * bits}"
        yield opcode.format(t=kind, n=bits), form.replace("t", kind).replace("w", wide), bits


for *places, oracle in FAMILIES:
    CASES += [(opcode, types, oracle) for opcode, types, _ in family(*places)]
for *places, maker in SIZED:
    CASES += [(opcode, types, maker(bits)) for opcode, types, bits in family(*places)]


def wrap24(number: int) -> int:
    number &= 0xFFFFFF
    return number - (1 << 24) if number >> 23 else number


def expected(kind: str, oracle: Callable[..., int], columns: list[list[int]]) -> Any:
    """Return the oracle's results."""
    return np.array(
        [wrap(int(oracle(*row)), kind) for row in zip(*columns, strict=True)], numpy_type(kind)
    )


@pytest.mark.volume_but("prmt.b32")
@pytest.mark.parametrize(("opcode", "types", "oracle"), CASES, ids=[case[0] for case in CASES])
def test_an_integer_instruction(opcode: str, types: str, oracle: Callable[..., int]) -> None:
    sources, target = types.split(" -> ")
    columns = [values(kind, seed) for seed, kind in enumerate(sources.split())]
    columns = [column[:160] for column in columns]
    operands = ", ".join(f"%{letter}" for letter in "abcd"[: len(columns)])
    result = run_snippet(
        f"{opcode} %o, {operands};", list(zip(sources.split(), columns, strict=True)), target
    )
    assert_array_equal(result, expected(target, oracle, columns))


@pytest.mark.parametrize("table", [0x00, 0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B, 0xFF])
def test_lop3_computes_any_function_of_three_bits(table: int) -> None:
    columns = [values("u32", seed) for seed in range(3)]
    result = run_alike(f"lop3.b32 %o, %a, %b, %c, {table};", "u32", *columns)
    assert_array_equal(result, expected("u32", lookup(table), columns))


def check_words(words: Any, totals: list[int], bits: int) -> None:
    """Compare the words of numbers, the lowest first."""
    for place, word in enumerate(words):
        expected = [total >> bits * place & (1 << bits) - 1 for total in totals]
        assert word.tolist() == expected


@pytest.mark.parametrize(("name", "sign"), [("add", 1), ("sub", -1)])
def test_carries_go_through_additions_of_128_bits(name: str, sign: int) -> None:
    a, b, c, d = (values("u64", seed) for seed in range(4))
    code = f"{name}.cc.u64 %o, %a, %c; {name}c.u64 %p, %b, %d;"
    totals = [(y << 64 | x) + sign * (w << 64 | z) for x, y, z, w in zip(a, b, c, d, strict=True)]
    check_words(run_alike(code, "u64", a, b, c, d, to="u64 u64"), totals, 64)


def test_a_carry_goes_through_multiply_and_add() -> None:
    a, b, c, d = (values("u32", seed) for seed in range(4))
    code = "mad.lo.cc.u32 %o, %a, %b, %c; madc.hi.u32 %p, %a, %b, %d;"
    totals = [x * y + (w << 32 | z) for x, y, z, w in zip(a, b, c, d, strict=True)]
    check_words(run_alike(code, "u32", a, b, c, d, to="u32 u32"), totals, 32)


def has_all(target: str, source: str) -> bool:
    """Return whether a type has all values of another one."""
    whole, part = np.iinfo(numpy_type(target)), np.iinfo(numpy_type(source))
    return whole.min <= part.min and part.max <= whole.max


EIGHT = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]


@pytest.mark.parametrize(
    ("saturate", "target", "source"),
    [
        (saturate, *kinds)
        for kinds in itertools.product(EIGHT, repeat=2)
        for saturate in ("", ".sat")
        if not saturate or not has_all(*kinds)
    ],
)
def test_cvt_between_integers(source: str, target: str, saturate: str) -> None:
    column = values(source, 1)
    result = run_alike(f"cvt{saturate}.{target}.{source} %o, %a;", source, column, to=target)
    oracle: Callable[[int], int] = (lambda a: clamped(target, a)) if saturate else (lambda a: a)
    assert_array_equal(result, expected(target, oracle, [column]))


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("eq", np.equal),
        ("ne", np.not_equal),
        ("lt", np.less),
        ("le", np.less_equal),
        ("gt", np.greater),
        ("ge", np.greater_equal),
    ],
)
def test_setp_of_integers(kind: str, name: str, oracle: Any) -> None:
    columns = [values(kind, 1), sorted(values(kind, 1))]
    result = run_alike(f"setp.{name}.{kind} %qo, %a, %b;", kind, *columns, to="pred")
    assert_array_equal(result, oracle(*(np.array(column, numpy_type(kind)) for column in columns)))


def test_setp_with_two_destinations_and_a_combination() -> None:
    a, b, c = values("u32", 1), values("u32", 2), [number & 1 for number in values("u32", 3)]
    inputs = [("u32", a), ("u32", b), ("pred", c)]
    first, second = run_snippet("setp.lo.u32 %qo|%qp, %a, %b;", inputs, "pred", "pred")
    less = np.array(a) < np.array(b)
    assert_array_equal(first, less)
    assert_array_equal(second, ~less)
    assert_array_equal(
        run_snippet("setp.lo.and.u32 %qo, %a, %b, %qc;", inputs, "pred"), less & np.array(c, bool)
    )
    assert_array_equal(
        run_snippet("setp.lo.xor.u32 %qo, %a, %b, !%qc;", inputs, "pred"), less ^ ~np.array(c, bool)
    )


def test_selection_and_set() -> None:
    a, b, c = values("u32", 1), values("u32", 2), values("s32", 3)
    assert_array_equal(
        run_snippet(
            "setp.lt.s32 %v, %c, 0; selp.b32 %o, %a, %b, %v;",
            [("u32", a), ("u32", b), ("s32", c)],
            "u32",
        ),
        np.where(np.array(c) < 0, a, b),
    )
    assert_array_equal(
        run_snippet("slct.u32.s32 %o, %a, %b, %c;", [("u32", a), ("u32", b), ("s32", c)], "u32"),
        np.where(np.array(c) >= 0, a, b),
    )
    assert_array_equal(
        run_alike("set.lt.u32.u32 %o, %a, %b;", "u32", a, b),
        np.where(np.array(a) < np.array(b), 0xFFFFFFFF, 0),
    )
    assert_array_equal(
        run_alike("set.lt.f32.u32 %o, %a, %b;", "u32", a, b, to="f32"),
        np.where(np.array(a) < np.array(b), 1.0, 0.0),
    )


def test_a_predicated_instruction_keeps_the_old_value_elsewhere() -> None:
    a, b = values("u32", 1), [number & 1 for number in values("u32", 2)]
    result = run_snippet(
        "mov.u32 %o, 7; @%qb add.u32 %o, %a, 1; @!%qb add.u32 %o, %o, 1;",
        [("u32", a), ("pred", b)],
        "u32",
    )
    assert_array_equal(result, np.where(np.array(b) != 0, (np.array(a) + 1) & 0xFFFFFFFF, 8))


def test_vectors_pack_and_unpack() -> None:
    a, b = values("u32", 1), values("u32", 2)
    both = run_alike("mov.b64 %o, {%a, %b};", "u32", a, b, to="u64")
    assert_array_equal(both, np.array(b, np.uint64) << np.uint64(32) | np.array(a, np.uint64))
    low, high = run_alike("mov.b64 {%o, %p}, %a;", "u64", both, to="u32 u32")
    assert_array_equal(low, a)
    assert_array_equal(high, b)
    low, high = run_alike(
        "mov.b128 %wide, {%a, %b}; mov.b128 {%p, %o}, %wide;", "u64", both, both[::-1], to="u64 u64"
    )
    assert_array_equal(low, both[::-1])
    assert_array_equal(high, both)


def signed_part(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": int.__add__,
    "vsub": int.__sub__,
    "vavrg": lambda a, b: a + b + (a + b >= 0) >> 1,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
}


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", VIDEO)
def test_operations_of_the_numbers_in_a_register(name: str, count: int) -> None:
    bits = 32 // count
    mask = (1 << bits) - 1
    random = np.random.default_rng(4)
    a, b, c = random.integers(0, 2**32, (3, 100), np.uint32)
    a[:4] = 0, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F
    for kinds, suffix in itertools.product(
        ("u32.u32.u32", "s32.s32.s32", "s32.u32.s32"), ("", ".sat", ".add")
    ):
        result, first, second = kinds.split(".")
        expected = []
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
            numbers = []
            for shift in range(0, 32, bits):
                one, other = x >> shift & mask, y >> shift & mask
                one = signed_part(one, bits) if first == "s32" else one
                other = signed_part(other, bits) if second == "s32" else other
                numbers.append(VIDEO[name](one, other))
            if suffix == ".add":
                expected.append(sum(numbers) + z & 2**32 - 1)
                continue
            low = -(1 << bits - 1) if result == "s32" else 0
            if suffix == ".sat":
                numbers = [min(max(each, low), low + mask) for each in numbers]
            expected.append(sum((each & mask) << bits * at for at, each in enumerate(numbers)))
        opcode = f"{name}{count}.{kinds}{suffix}"
        got = run_alike(f"{opcode} %o, %a, %b, %c;", "u32", a, b, c)
        assert got.tolist() == expected, opcode


def test_comparisons_of_the_numbers_in_a_register() -> None:
    a, b, c = (np.array([each], np.uint32) for each in (0x01FF0380, 0x01010404, 10))
    assert run_alike("vset4.u32.u32.lt %o, %a, %b, %c;", "u32", a, b, c)[0] == 0x00000100
    assert run_alike("vset4.s32.s32.lt %o, %a, %b, %c;", "u32", a, b, c)[0] == 0x00010101
    assert run_alike("vset4.u32.u32.eq.add %o, %a, %b, %c;", "u32", a, b, c)[0] == 11
