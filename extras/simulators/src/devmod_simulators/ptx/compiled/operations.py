"""What each instruction is for LLVM: vectors of the lanes of a chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from devmod_simulators.ptx.compiled.context import LOOPS, MODES, ROUNDED
from devmod_simulators.ptx.compiled.emit import constant, floats, vector
from devmod_simulators.ptx.compiled.loops import loops
from devmod_simulators.ptx.errors import UnsupportedError
from devmod_simulators.ptx.instructions import WITHOUT_EFFECT, names
from devmod_simulators.ptx.memory import WINDOW_SHIFT, WINDOWS
from devmod_simulators.ptx.ops_memory import space_of
from devmod_simulators.ptx.ptx_types import DTYPES, FLOATS, Integer, Pair, Vector

if TYPE_CHECKING:
    from devmod_simulators.ptx.compiled.emit import Emitter
    from devmod_simulators.ptx.decoder import Decoder

Execute = Callable[["Emitter", "Decoder"], None]

#: The code of plain instructions, by the first part of their opcode.
OPERATIONS: dict[str, Execute] = {}
PRED = vector(1)


def operation(*names: str) -> Callable[[Execute], Execute]:
    """Register the function for instructions."""

    def register(function: Execute) -> Execute:
        for name in names:
            OPERATIONS[name] = function
        return function

    return register


def execute(e: Emitter, d: Decoder) -> None:
    """Add the code of an instruction."""
    try:
        OPERATIONS[d.root](e, d)
    except UnsupportedError as error:
        raise UnsupportedError(f"{d.opcode}: {error}") from None


def width_of(kind: str) -> int:
    """Return the bits of a PTX type; 1 for predicates."""
    return 1 if kind == "pred" else 8 * DTYPES[kind].itemsize


def is_signed(kind: str) -> bool:
    """Return whether a PTX type is one of signed integers."""
    return kind.startswith("s")


def choose(e: Emitter, holds: str, kind: str, yes: str, no: str) -> str:
    """Return one of two vectors for each lane."""
    return e.op(f"select {PRED} {holds}, {kind} {yes}, {kind} {no}")


def intrinsic(e: Emitter, name: str, kind: str, *values: str, more: str = "") -> str:
    """Call a function of LLVM for vectors of one type."""
    bits = kind.strip("<>").replace(" x ", "").replace("half", "f16")
    bits = bits.replace("float", "f32").replace("double", "f64")
    arguments = ", ".join(f"{kind} {value}" for value in values)
    flag = ", i1" if more else ""
    e.declare(f"declare {kind} @llvm.{name}.v{bits}({', '.join([kind] * len(values))}{flag})")
    return e.op(f"call {kind} @llvm.{name}.v{bits}({arguments}{more})")


# Integers


def integers(e: Emitter, d: Decoder, count: int, kind: str = "") -> list[str]:
    """Return the operands behind the destination."""
    kind = kind or d.type
    return [e.number(d.operands[n], kind) for n in range(1, count + 1)]


def halves(e: Emitter, value: str) -> str:
    """Return registers as twice as many integers of 16 bits."""
    return e.op(f"bitcast {vector(32)} {value} to <16 x i16>")


def of_halves(e: Emitter, value: str) -> str:
    """Return integers of 16 bits as registers."""
    return e.op(f"bitcast <16 x i16> {value} to {vector(32)}")


@operation("addc", "subc")
def _add_integers(e: Emitter, d: Decoder) -> None:
    kind = d.type
    name = d.root[:3]
    carries = d.root.endswith("c")
    a, b = integers(e, d, 2)
    width = width_of(kind)
    of = vector(width)
    if carries or d.has("cc"):
        e.target(d.operands[0], with_carry(e, d, a, b, width), kind)
        return
    is_pair = kind.endswith("x2")
    if is_pair:
        of, a, b = "<16 x i16>", halves(e, a), halves(e, b)
    if d.has("sat"):
        value = intrinsic(e, f"{'s' if is_signed(kind) else 'u'}{name}.sat", of, a, b)
    else:
        value = e.op(f"{name} {of} {a}, {b}")
    e.target(d.operands[0], of_halves(e, value) if is_pair else value, kind)


def with_carry(e: Emitter, d: Decoder, a: str, b: str, width: int) -> str:
    """Return the sum or the difference of an instruction that reads or writes the carry flag."""
    of = vector(width)
    key = e.known((e.copy.number, "carry"), 1)
    subtracts = d.root.startswith("sub")
    if subtracts:
        b = e.op(f"xor {of} {b}, splat (i{width} -1)")
    extra = constant(int(subtracts), width)
    if d.root.endswith("c"):
        extra = e.op(f"zext {PRED} {e.read(key)} to {of}")
    total = e.op(f"add {of} {a}, {b}")
    value = e.op(f"add {of} {total}, {extra}")
    if d.has("cc"):
        first = e.op(f"icmp ult {of} {total}, {a}")
        second = e.op(f"icmp ult {of} {value}, {total}")
        e.write(key, e.op(f"or {PRED} {first}, {second}"))
    return value


def product(e: Emitter, d: Decoder) -> tuple[str, str]:
    """Return the product of the first operands and its type."""
    kind = d.type
    width = width_of(kind)
    a = e.number(d.operands[1], kind)
    b = e.number(d.operands[2], kind)
    of = vector(width)
    if not d.has("wide") and not d.has("hi"):
        return e.op(f"mul {of} {a}, {b}"), kind
    change = "sext" if is_signed(kind) else "zext"
    wide = vector(2 * width)
    a, b = (e.op(f"{change} {of} {each} to {wide}") for each in (a, b))
    both = e.op(f"mul {wide} {a}, {b}")
    if d.has("wide"):
        return both, f"{kind[0]}{2 * width}"
    high = e.op(f"lshr {wide} {both}, {constant(width, 2 * width)}")
    return e.op(f"trunc {wide} {high} to {of}"), kind


def multiply(e: Emitter, d: Decoder) -> None:
    """Add mul of integers."""
    value, kind = product(e, d)
    e.target(d.operands[0], value, kind)


@operation("madc")
def _multiply_add(e: Emitter, d: Decoder) -> None:
    value, kind = product(e, d)
    width = width_of(kind)
    c = e.number(d.operands[3], kind)
    if d.has("cc") or d.root == "madc":
        value = with_carry(e, d, value, c, width)
    elif d.has("sat"):
        value = intrinsic(e, "sadd.sat", vector(width), value, c)
    else:
        value = e.op(f"add {vector(width)} {value}, {c}")
    e.target(d.operands[0], value, kind)


@operation("mul24", "mad24")
def _mul24(e: Emitter, d: Decoder) -> None:
    kind = d.type
    change = "sext" if is_signed(kind) else "zext"
    parts = []
    for number in (1, 2):
        narrow = e.op(f"trunc {vector(32)} {e.number(d.operands[number], kind)} to {vector(24)}")
        parts.append(e.op(f"{change} {vector(24)} {narrow} to {vector(64)}"))
    value = e.op(f"mul {vector(64)} {parts[0]}, {parts[1]}")
    if d.has("hi"):
        value = e.op(f"lshr {vector(64)} {value}, {constant(16, 64)}")
    value = e.op(f"trunc {vector(64)} {value} to {vector(32)}")
    if d.root == "mad24":
        c = e.number(d.operands[3], kind)
        if d.has("sat"):
            value = intrinsic(e, "sadd.sat", vector(32), value, c)
        else:
            value = e.op(f"add {vector(32)} {value}, {c}")
    e.target(d.operands[0], value, kind)


def magnitude(e: Emitter, value: str, width: int) -> str:
    """Return the absolute value of integers, as unsigned ones."""
    return intrinsic(e, "abs", vector(width), value, more=", i1 false")


def divide(e: Emitter, d: Decoder) -> None:
    """Add div and rem of integers: no processor divides by zero."""
    kind = d.type
    width = width_of(kind)
    of = vector(width)
    a, b = integers(e, d, 2)
    none = e.op(f"icmp eq {of} {b}, zeroinitializer")
    x, y = a, b
    if is_signed(kind):
        x, y = (magnitude(e, each, width) for each in (a, b))
    y = choose(e, none, of, constant(1, width), y)
    name = "udiv" if d.root == "div" else "urem"
    value = e.op(f"{name} {of} {x}, {y}")
    if is_signed(kind):
        sign = a if d.root == "rem" else e.op(f"xor {of} {a}, {b}")
        negative = e.op(f"icmp slt {of} {sign}, zeroinitializer")
        value = choose(e, negative, of, e.op(f"sub {of} zeroinitializer, {value}"), value)
    beyond = a if d.root == "rem" else constant(-1, width)
    e.target(d.operands[0], choose(e, none, of, beyond, value), kind)


OPERATIONS["rem"] = divide


def extreme_of_integers(e: Emitter, d: Decoder) -> None:
    """Add min and max of integers."""
    kind = d.type
    sign = "s" if is_signed(kind) else "u"
    a, b = integers(e, d, 2)
    name = f"{sign}{d.root}"
    of = vector(width_of(kind))
    is_pair = kind.endswith("x2")
    if is_pair:
        of, a, b = "<16 x i16>", halves(e, a), halves(e, b)
    value = intrinsic(e, name, of, a, b)
    if d.has("relu"):
        value = intrinsic(e, "smax", of, value, "zeroinitializer")
    e.target(d.operands[0], of_halves(e, value) if is_pair else value, kind)


@operation("sad")
def _sad(e: Emitter, d: Decoder) -> None:
    kind = d.type
    of = vector(width_of(kind))
    a, b, c = integers(e, d, 3)
    compare = "sgt" if is_signed(kind) else "ugt"
    more = e.op(f"icmp {compare} {of} {a}, {b}")
    value = choose(e, more, of, e.op(f"sub {of} {a}, {b}"), e.op(f"sub {of} {b}, {a}"))
    e.target(d.operands[0], e.op(f"add {of} {value}, {c}"), kind)


@operation("and", "or", "xor")
def _bitwise(e: Emitter, d: Decoder) -> None:
    a, b = integers(e, d, 2)
    e.target(d.operands[0], e.op(f"{d.root} {vector(width_of(d.type))} {a}, {b}"), d.type)


@operation("not")
def _not(e: Emitter, d: Decoder) -> None:
    (a,) = integers(e, d, 1)
    width = width_of(d.type)
    e.target(d.operands[0], e.op(f"xor {vector(width)} {a}, splat (i{width} -1)"), d.type)


@operation("cnot")
def _cnot(e: Emitter, d: Decoder) -> None:
    (a,) = integers(e, d, 1)
    of = vector(width_of(d.type))
    none = e.op(f"icmp eq {of} {a}, zeroinitializer")
    e.target(d.operands[0], e.op(f"zext {PRED} {none} to {of}"), d.type)


@operation("lop3")
def _lop3(e: Emitter, d: Decoder) -> None:
    of = vector(32)
    combine = d.first(("and", "or"))
    first, second = pair(d)
    values = [e.source(d.operands[number], 32) for number in (1, 2, 3)]
    inverse = [e.op(f"xor {of} {value}, splat (i32 -1)") for value in values]
    result = "zeroinitializer"
    for minterm in range(8):
        if d.operands[4].value >> minterm & 1:
            part = ""
            for place, (value, other) in enumerate(zip(values, inverse, strict=True)):
                one = value if minterm >> (2 - place) & 1 else other
                part = e.op(f"and {of} {part}, {one}") if part else one
            result = e.op(f"or {of} {result}, {part}")
    if combine:
        condition = e.source(d.operands[5], 1)
    e.target(first, result, "b32")
    if combine:
        some = e.op(f"icmp ne {of} {result}, zeroinitializer")
        e.target(second, e.op(f"{combine} {PRED} {some}, {condition}"), "pred")


def pair(d: Decoder) -> tuple[Any, Any]:
    """Return the two destinations of an instruction."""
    from devmod_simulators.ptx.ptx_types import Name

    both = d.operands[0]
    if isinstance(both, Pair):
        return both.first, both.second
    return both, Name("_")


@operation("shl", "shr")
def _shift(e: Emitter, d: Decoder) -> None:
    kind = d.type
    width = width_of(kind)
    of = vector(width)
    a = e.number(d.operands[1], kind)
    literal = e.plain(d.operands[2])
    if isinstance(literal, Integer) and 0 <= literal.value < width:
        root = {"shl": "shl", "shr": "ashr" if is_signed(kind) else "lshr"}[d.root]
        value = e.op(f"{root} {of} {a}, {constant(literal.value, width)}")
        e.target(d.operands[0], value, kind)
        return
    count = e.source(d.operands[2], 32)
    most = constant(width - 1, 32)
    kept = intrinsic(e, "umin", vector(32), count, most)
    if width != 32:
        change = "trunc" if width < 32 else "zext"
        kept = e.op(f"{change} {vector(32)} {kept} to {of}")
    if d.root == "shr" and is_signed(kind):
        value = e.op(f"ashr {of} {a}, {kept}")
    else:
        value = e.op(f"{'shl' if d.root == 'shl' else 'lshr'} {of} {a}, {kept}")
        fits = e.op(f"icmp ule {vector(32)} {count}, {most}")
        value = choose(e, fits, of, value, "zeroinitializer")
    e.target(d.operands[0], value, kind)


@operation("shf")
def _shf(e: Emitter, d: Decoder) -> None:
    low, high, count = (e.source(d.operands[number], 32) for number in (1, 2, 3))
    of, wide = vector(32), vector(64)
    if d.has("wrap"):
        count = e.op(f"and {of} {count}, {constant(31, 32)}")
    else:
        count = intrinsic(e, "umin", of, count, constant(32, 32))
    low, high, count = (e.op(f"zext {of} {each} to {wide}") for each in (low, high, count))
    both = e.op(f"or {wide} {e.op(f'shl {wide} {high}, {constant(32, 64)}')}, {low}")
    if d.has("l"):
        both = e.op(f"shl {wide} {both}, {count}")
        both = e.op(f"lshr {wide} {both}, {constant(32, 64)}")
    else:
        both = e.op(f"lshr {wide} {both}, {count}")
    e.target(d.operands[0], e.op(f"trunc {wide} {both} to {of}"), "b32")


@operation("popc", "clz", "brev")
def _counts(e: Emitter, d: Decoder) -> None:
    (a,) = integers(e, d, 1)
    width = width_of(d.type)
    of = vector(width)
    name, more = {"popc": ("ctpop", ""), "clz": ("ctlz", ", i1 false"), "brev": ("bitreverse", "")}[
        d.root
    ]
    value = intrinsic(e, name, of, a, more=more)
    if d.root == "brev":
        e.target(d.operands[0], value, d.type)
        return
    if width == 64:
        value = e.op(f"trunc {of} {value} to {vector(32)}")
    e.target(d.operands[0], value, "u32")


@operation("bfind")
def _bfind(e: Emitter, d: Decoder) -> None:
    kind = d.type
    (a,) = integers(e, d, 1)
    width = width_of(kind)
    of = vector(width)
    if is_signed(kind):
        sign = e.op(f"ashr {of} {a}, {constant(width - 1, width)}")
        a = e.op(f"xor {of} {a}, {sign}")
    zeros = intrinsic(e, "ctlz", of, a, more=", i1 false")
    if not d.has("shiftamt"):
        zeros = e.op(f"sub {of} {constant(width - 1, width)}, {zeros}")
    none = e.op(f"icmp eq {of} {a}, zeroinitializer")
    value = choose(e, none, of, constant(-1, width), zeros)
    if width == 64:
        value = e.op(f"trunc {of} {value} to {vector(32)}")
    e.target(d.operands[0], value, "u32")


def byte_of(e: Emitter, operand: Any, width: int) -> str:
    """Return the low 8 bits of an operand of 32, as integers of some width."""
    value = e.op(f"and {vector(32)} {e.source(operand, 32)}, {constant(255, 32)}")
    if width == 32:
        return value
    return e.op(f"zext {vector(32)} {value} to {vector(width)}")


@operation("bfe")
def _bfe(e: Emitter, d: Decoder) -> None:
    kind = d.type
    width = width_of(kind)
    of = vector(width)
    a = e.number(d.operands[1], kind)
    start = byte_of(e, d.operands[2], width)
    length = byte_of(e, d.operands[3], width)
    right = "ashr" if is_signed(kind) else "lshr"
    end = intrinsic(e, "umin", of, e.op(f"add {of} {start}, {length}"), constant(width, width))
    is_inside = e.op(f"icmp ult {of} {start}, {constant(width, width)}")
    left = e.op(f"sub {of} {constant(width, width)}, {end}")
    # Where the field is empty or outside, the shifts must have a meaning too.
    left = intrinsic(e, "umin", of, left, constant(width - 1, width))
    count = e.op(f"sub {of} {end}, {start}")
    back = e.op(f"sub {of} {constant(width, width)}, {count}")
    back = intrinsic(e, "umin", of, back, constant(width - 1, width))
    value = e.op(f"{right} {of} {e.op(f'shl {of} {a}, {left}')}, {back}")
    beyond = "zeroinitializer"
    if is_signed(kind):
        beyond = e.op(f"ashr {of} {a}, {constant(width - 1, width)}")
    value = choose(e, is_inside, of, value, beyond)
    none = e.op(f"icmp eq {of} {length}, zeroinitializer")
    e.target(d.operands[0], choose(e, none, of, "zeroinitializer", value), kind)


def shifted_left(e: Emitter, value: str, count: str, width: int) -> str:
    """Return a value shifted to the left; zeros for all bits and more."""
    of = vector(width)
    fits = e.op(f"icmp ult {of} {count}, {constant(width, width)}")
    kept = choose(e, fits, of, count, "zeroinitializer")
    return choose(e, fits, of, e.op(f"shl {of} {value}, {kept}"), "zeroinitializer")


def mask_of(e: Emitter, start: str, count: str, width: int) -> str:
    """Return ones in a field."""
    of = vector(width)
    above = shifted_left(e, constant(-1, width), count, width)
    return shifted_left(e, e.op(f"xor {of} {above}, splat (i{width} -1)"), start, width)


@operation("bfi")
def _bfi(e: Emitter, d: Decoder) -> None:
    kind = d.type
    width = width_of(kind)
    of = vector(width)
    a = e.number(d.operands[1], kind)
    b = e.number(d.operands[2], kind)
    start = byte_of(e, d.operands[3], width)
    count = byte_of(e, d.operands[4], width)
    mask = mask_of(e, start, count, width)
    inside = e.op(f"and {of} {shifted_left(e, a, start, width)}, {mask}")
    outside = e.op(f"and {of} {b}, {e.op(f'xor {of} {mask}, splat (i{width} -1)')}")
    e.target(d.operands[0], e.op(f"or {of} {inside}, {outside}"), kind)


@operation("bmsk")
def _bmsk(e: Emitter, d: Decoder) -> None:
    start, count = (e.source(d.operands[number], 32) for number in (1, 2))
    if d.has("wrap"):
        start, count = (e.op(f"and {vector(32)} {each}, splat (i32 31)") for each in (start, count))
    e.target(d.operands[0], mask_of(e, start, count, 32), "b32")


@operation("szext")
def _szext(e: Emitter, d: Decoder) -> None:
    kind = d.type
    of = vector(32)
    a = e.number(d.operands[1], kind)
    count = e.source(d.operands[2], 32)
    if d.has("wrap"):
        count = e.op(f"and {of} {count}, splat (i32 31)")
    else:
        count = intrinsic(e, "umin", of, count, constant(32, 32))
    none = e.op(f"icmp eq {of} {count}, zeroinitializer")
    shift = intrinsic(e, "umin", of, e.op(f"sub {of} splat (i32 32), {count}"), constant(31, 32))
    right = "ashr" if is_signed(kind) else "lshr"
    value = e.op(f"{right} {of} {e.op(f'shl {of} {a}, {shift}')}, {shift}")
    e.target(d.operands[0], choose(e, none, of, "zeroinitializer", value), kind)


@operation("prmt")
def _prmt(e: Emitter, d: Decoder) -> None:
    mode = d.first(("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"))
    a, b, selector = (e.source(d.operands[number], 32) for number in (1, 2, 3))
    of, wide = vector(32), vector(64)
    low, high = (e.op(f"zext {of} {each} to {wide}") for each in (a, b))
    both = e.op(f"or {wide} {e.op(f'shl {wide} {high}, {constant(32, 64)}')}, {low}")
    result = "zeroinitializer"
    for place in range(4):
        nibble = _nibble(e, selector, place, mode)
        shift = e.op(f"shl {of} {e.op(f'and {of} {nibble}, splat (i32 7)')}, splat (i32 3)")
        byte = e.op(f"lshr {wide} {both}, {e.op(f'zext {of} {shift} to {wide}')}")
        byte = e.op(f"trunc {wide} {byte} to {vector(8)}")
        if not mode:
            sign = e.op(f"ashr {vector(8)} {byte}, splat (i8 7)")
            copies = e.op(f"and {of} {nibble}, splat (i32 8)")
            holds = e.op(f"icmp ne {of} {copies}, zeroinitializer")
            byte = choose(e, holds, vector(8), sign, byte)
        part = e.op(f"zext {vector(8)} {byte} to {of}")
        part = e.op(f"shl {of} {part}, {constant(8 * place, 32)}")
        result = e.op(f"or {of} {result}, {part}")
    e.target(d.operands[0], result, "b32")


def _nibble(e: Emitter, selector: str, place: int, mode: str) -> str:
    """Return the byte that prmt takes for one of its result."""
    of = vector(32)
    if not mode:
        moved = e.op(f"lshr {of} {selector}, {constant(4 * place, 32)}")
        return e.op(f"and {of} {moved}, splat (i32 15)")
    three = e.op(f"and {of} {selector}, splat (i32 3)")
    here = constant(place, 32)
    if mode == "f4e":
        return e.op(f"add {of} {three}, {here}")
    if mode == "b4e":
        return e.op(f"sub {of} {three}, {here}")
    if mode == "ecl":
        return intrinsic(e, "umax", of, three, here)
    if mode == "ecr":
        return intrinsic(e, "umin", of, three, here)
    if mode == "rc16":
        odd = e.op(f"shl {of} {e.op(f'and {of} {three}, splat (i32 1)')}, splat (i32 1)")
        return e.op(f"add {of} {odd}, {constant(place % 2, 32)}")
    return three


@operation("dp4a", "dp2a")
def _dot(e: Emitter, d: Decoder) -> None:
    of = vector(32)
    a, b, total = (e.source(d.operands[number], 32) for number in (1, 2, 3))
    first, second = (is_signed(kind) for kind in d.types[:2])
    four = d.root == "dp4a"
    begin = 2 if d.has("hi") and not four else 0
    for place in range(4 if four else 2):
        x = _field(e, a, place, 8 if four else 16, signed=first)
        y = _field(e, b, place + begin, 8, signed=second)
        total = e.op(f"add {of} {total}, {e.op(f'mul {of} {x}, {y}')}")
    e.target(d.operands[0], total, "b32")


def _field(e: Emitter, value: str, place: int, width: int, *, signed: bool) -> str:
    """Return a byte or a half of a register as 32 bits."""
    moved = e.op(f"lshr {vector(32)} {value}, {constant(place * width, 32)}")
    narrow = e.op(f"trunc {vector(32)} {moved} to {vector(width)}")
    return e.op(f"{'sext' if signed else 'zext'} {vector(width)} {narrow} to {vector(32)}")


# Moves and selection


@operation("mov")
def _mov(e: Emitter, d: Decoder) -> None:
    destination, operand = d.operands
    kind = d.type
    width = width_of(kind)
    if isinstance(operand, Vector):
        each = width // len(operand.parts)
        value = ""
        for place, part in enumerate(operand.parts):
            one = e.source(part, each)
            one = e.op(f"zext {vector(each)} {one} to {vector(width)}")
            if place:
                one = e.op(f"shl {vector(width)} {one}, {constant(place * each, width)}")
                value = e.op(f"or {vector(width)} {value}, {one}")
            else:
                value = one
        e.target(destination, value, f"b{width}")
        return
    value = e.number(operand, kind)
    if not isinstance(destination, Vector):
        e.target(destination, value, "pred" if width == 1 else f"b{width}")
        return
    each = width // len(destination.parts)
    for place, part in enumerate(destination.parts):
        one = value
        if place:
            one = e.op(f"lshr {vector(width)} {value}, {constant(place * each, width)}")
        one = e.op(f"trunc {vector(width)} {one} to {vector(each)}")
        e.target(part, one, f"b{each}")


@operation("selp")
def _selp(e: Emitter, d: Decoder) -> None:
    kind = d.type
    a, b = (e.number(d.operands[number], kind) for number in (1, 2))
    condition = e.source(d.operands[3], 1)
    e.target(d.operands[0], choose(e, condition, vector(width_of(kind)), a, b), unsigned(kind))


def unsigned(kind: str) -> str:
    """Return the type of the bits of a PTX type."""
    return kind if kind == "pred" else f"b{width_of(kind)}"


@operation("slct")
def _slct(e: Emitter, d: Decoder) -> None:
    kind, sign = d.types
    a, b = (e.number(d.operands[number], kind) for number in (1, 2))
    if sign == "f32":
        c = e.float(d.operands[3], "f32")
        if d.has("ftz"):
            c = flush(e, c, "f32")
        holds = e.op(f"fcmp oge {floats(32)} {c}, zeroinitializer")
    else:
        holds = e.op(f"icmp sge {vector(32)} {e.number(d.operands[3], sign)}, zeroinitializer")
    e.target(d.operands[0], choose(e, holds, vector(width_of(kind)), a, b), unsigned(kind))


# Comparison

_SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
_BITS = {"eq": "eq", "ne": "ne", "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_ORDERED = {
    "eq": "oeq",
    "ne": "one",
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
    "equ": "ueq",
    "neu": "une",
    "ltu": "ult",
    "leu": "ule",
    "gtu": "ugt",
    "geu": "uge",
    "num": "ord",
    "nan": "uno",
}


def compared(e: Emitter, d: Decoder, kind: str) -> str:
    """Return the comparison of the second and third operand as values of `kind`."""
    if kind in FLOATS:
        a, b = (value_of(e, d, d.operands[number], kind) for number in (1, 2))
        of = floats(64 if kind == "f64" else 32)
        return e.op(f"fcmp {_ORDERED[d.first(_ORDERED)]} {of} {a}, {b}")
    a, b = (e.number(d.operands[number], kind) for number in (1, 2))
    table = _BITS | (_SIGNED if is_signed(kind) else _UNSIGNED)
    return e.op(f"icmp {table[d.first(table)]} {vector(width_of(kind))} {a}, {b}")


def combined(e: Emitter, d: Decoder, holds: str) -> str:
    """Return the results of a comparison with those of the fourth operand."""
    combine = d.first(("and", "or", "xor"))
    if not combine:
        return holds
    return e.op(f"{combine} {PRED} {holds}, {e.source(d.operands[3], 1)}")


@operation("setp")
def _setp(e: Emitter, d: Decoder) -> None:
    first, second = pair(d)
    holds = compared(e, d, d.type)
    results = [combined(e, d, holds)]
    if isinstance(d.operands[0], Pair):
        results.append(combined(e, d, e.op(f"xor {PRED} {holds}, splat (i1 1)")))
        e.target(second, results[1], "pred")
    e.target(first, results[0], "pred")


@operation("set")
def _set(e: Emitter, d: Decoder) -> None:
    result, kind = d.types
    holds = combined(e, d, compared(e, d, kind))
    true = 0x3F800000 if result == "f32" else -1
    e.target(
        d.operands[0], choose(e, holds, vector(32), constant(true, 32), "zeroinitializer"), "b32"
    )


# Floats

_SMALLEST = {"f16": "0x3F10000000000000", "f32": "0x3810000000000000", "f64": "0x0010000000000000"}
_SMALLEST["bf16"] = _SMALLEST["f32"]
_COMPUTED = {"f16": 32, "f32": 32, "bf16": 32, "f64": 64}


def flush(e: Emitter, value: str, kind: str) -> str:
    """Return floats with those that are subnormal numbers of a type as zeros of their sign."""
    width = _COMPUTED[kind]
    of, raw = floats(width), vector(width)
    size = intrinsic(e, "fabs", of, value)
    smallest = e.splat(_SMALLEST[kind], of.split()[2].rstrip(">"))
    small = e.op(f"fcmp olt {of} {size}, {smallest}")
    sign = e.op(f"and {raw} {e.cast(value, of, raw)}, {constant(1 << width - 1, width)}")
    return choose(e, small, of, e.cast(sign, raw, of), value)


def value_of(
    e: Emitter, d: Decoder, operand: Any, kind: str, *, flushes: bool | None = None
) -> str:
    """Return an operand of a float type as vectors of float or double, flushed with .ftz."""
    raw = e.source(operand, 16) if kind == "bf16" else e.number(operand, kind)
    return value_from(e, raw, kind, d.has("ftz") if flushes is None else flushes)


def value_from(e: Emitter, raw: str, kind: str, flushes: bool) -> str:
    """Return the bits of a float type as vectors of float or double."""
    if kind == "bf16":
        raw = e.op(f"zext {vector(16)} {raw} to {vector(32)}")
        raw = e.op(f"shl {vector(32)} {raw}, splat (i32 16)")
        value = e.cast(raw, vector(32), floats(32))
        return flush(e, value, kind) if flushes else value
    width = width_of(kind)
    value = e.cast(raw, vector(width), floats(width))
    if kind == "f16":
        value = e.op(f"fpext {floats(16)} {value} to {floats(32)}")
    return flush(e, value, kind) if flushes else value


def to_bf16(e: Emitter, value: str) -> str:
    """Return float as the bits of bf16, rounded to nearest."""
    of = vector(32)
    raw = e.cast(value, floats(32), of)
    odd = e.op(f"and {of} {e.op(f'lshr {of} {raw}, splat (i32 16)')}, splat (i32 1)")
    raw = e.op(f"add {of} {e.op(f'add {of} {raw}, {odd}')}, {constant(0x7FFF, 32)}")
    raw = e.op(f"lshr {of} {raw}, splat (i32 16)")
    nan = e.op(f"fcmp uno {floats(32)} {value}, {value}")
    raw = choose(e, nan, of, constant(0x7FFF, 32), raw)
    return e.op(f"trunc {of} {raw} to {vector(16)}")


def one_of(kind: str) -> str:
    """Return a vector of ones."""
    return f"splat ({kind.split()[2].rstrip('>')} 1.0)"


def put_value(
    e: Emitter, d: Decoder, value: str, kind: str, *, flushes: bool | None = None
) -> None:
    """Give the destination floats that were computed, with the modifiers of the instruction."""
    raw = raw_of(e, d, value, kind, d.has("ftz") if flushes is None else flushes)
    e.target(d.operands[0], raw, unsigned(kind))


def raw_of(e: Emitter, d: Decoder, value: str, kind: str, flushes: bool) -> str:
    """Return the bits of a float type for floats that were computed."""
    of = floats(_COMPUTED[kind])
    if d.has("sat"):
        above = e.op(f"fcmp ogt {of} {value}, zeroinitializer")
        value = choose(e, above, of, value, "zeroinitializer")
        less = e.op(f"fcmp olt {of} {value}, {one_of(of)}")
        value = choose(e, less, of, value, one_of(of))
    if d.has("relu"):
        below = e.op(f"fcmp ole {of} {value}, zeroinitializer")
        value = choose(e, below, of, "zeroinitializer", value)
    if kind == "bf16":
        return to_bf16(e, flush(e, value, kind) if flushes else value)
    width = width_of(kind)
    if kind == "f16":
        short = e.op(f"fptrunc {of} {value} to {floats(16)}")
        if flushes:
            value = flush(e, e.op(f"fpext {floats(16)} {short} to {of}"), "f16")
            short = e.op(f"fptrunc {of} {value} to {floats(16)}")
        return without_payload(e, value, short)
    if flushes:
        value = flush(e, value, kind)
    return e.cast(value, floats(width), vector(width))


def without_payload(e: Emitter, value: str, short: str) -> str:
    """Return the bits of halves that were rounded from floats: NaN has one form."""
    nan = e.op(f"fcmp uno {floats(32)} {value}, {value}")
    raw = e.cast(short, floats(16), vector(16))
    return choose(e, nan, vector(16), constant(0x7FFF, 16), raw)


def each_number(
    e: Emitter, d: Decoder, operands: list[Any], compute: Callable[[list[str], str], str]
) -> None:
    """Compute one number of some operands, or each of a pair."""
    kind = d.type.removesuffix("x2")
    if kind == d.type:
        values = [value_of(e, d, operand, kind) for operand in operands]
        put_value(e, d, compute(values, kind), kind)
        return
    half = width_of(kind)
    whole = vector(2 * half)
    sources = [e.source(operand, 2 * half) for operand in operands]
    result = ""
    for shift in (0, half):
        values = []
        for source in sources:
            moved = source
            if shift:
                moved = e.op(f"lshr {whole} {source}, {constant(shift, 2 * half)}")
            raw = e.op(f"trunc {whole} {moved} to {vector(half)}")
            values.append(value_from(e, raw, kind, d.has("ftz")))
        raw = raw_of(e, d, compute(values, kind), kind, d.has("ftz") and kind != "bf16")
        part = e.op(f"zext {vector(half)} {raw} to {whole}")
        if shift:
            part = e.op(f"shl {whole} {part}, {constant(shift, 2 * half)}")
            part = e.op(f"or {whole} {result}, {part}")
        result = part
    e.target(d.operands[0], result, f"b{2 * half}")


def directed(e: Emitter, name: str, mode: str, width: int, values: list[str], kind: str) -> str:
    """Return what engine.c computes in a rounding mode, for vectors of a type."""
    places = [e.slot(vector(64), number) for number in range(4)]
    for value, place in zip(values, places[1:], strict=False):
        e.line(f"store {kind} {value}, ptr {place}, align 8")
    e.call(
        "rounded",
        "void",
        f"i32 {ROUNDED.index(name)}, i32 {MODES.index(mode)}, i32 {width // 8}, "
        f"ptr {places[1]}, ptr {places[2]}, ptr {places[3]}, ptr {places[0]}",
    )
    return e.op(f"load {floats(width)}, ptr {places[0]}, align 8")


def arithmetic(e: Emitter, d: Decoder, name: str, count: int) -> None:
    """Add an operation of floats with one rounding."""
    mode = d.rounding

    def compute(values: list[str], kind: str) -> str:
        of = floats(_COMPUTED[kind])
        is_short = kind in ("f16", "bf16")
        if mode != "rn":
            return directed(e, name, mode, _COMPUTED[kind], values, of)
        if name == "fma":
            if is_short:
                return fused_short(e, values)
            return intrinsic(e, "fma", of, *values)
        if name == "sqrt":
            return intrinsic(e, "sqrt", of, *values)
        return e.op(f"f{name} {of} {values[0]}, {values[1]}")

    each_number(e, d, d.operands[1:], compute)


def to_odd(e: Emitter, value: str, error: str, width: int) -> str:
    """Return floats rounded to odd, of those that were rounded to nearest with an error: one more
    rounding is then that of the exact value (Boldo and Melquiond).
    """
    of, raw = floats(width), vector(width)
    bits = e.cast(value, of, raw)
    size = intrinsic(e, "fabs", of, error)
    some = e.op(f"fcmp ogt {of} {size}, zeroinitializer")
    infinity = e.splat("0x7FF0000000000000", of.split()[2].rstrip(">"))
    finite = e.op(f"fcmp olt {of} {size}, {infinity}")
    low = e.op(f"trunc {raw} {bits} to {PRED}")
    even = e.op(f"xor {PRED} {low}, splat (i1 1)")
    changes = e.op(f"and {PRED} {e.op(f'and {PRED} {some}, {finite}')}, {even}")
    above = e.op(f"fcmp ogt {of} {error}, zeroinitializer")
    positive = e.op(f"fcmp ogt {of} {value}, zeroinitializer")
    away = e.op(f"xor {PRED} {above}, {positive}")
    step = choose(e, away, raw, constant(-1, width), constant(1, width))
    changed = choose(e, changes, raw, e.op(f"add {raw} {bits}, {step}"), bits)
    return e.cast(changed, raw, of)


def fused_short(e: Emitter, values: list[str]) -> str:
    """Return a * b + c of halves as floats that are to be rounded once more. The product is exact
    in double.
    """
    wide = floats(64)
    a, b, c = (e.op(f"fpext {floats(32)} {value} to {wide}") for value in values)
    product = e.op(f"fmul {wide} {a}, {b}")
    total = e.op(f"fadd {wide} {product}, {c}")
    other = e.op(f"fsub {wide} {total}, {product}")
    first = e.op(f"fsub {wide} {product}, {e.op(f'fsub {wide} {total}, {other}')}")
    second = e.op(f"fsub {wide} {c}, {other}")
    odd = to_odd(e, total, e.op(f"fadd {wide} {first}, {second}"), 64)
    near = e.op(f"fptrunc {wide} {odd} to {floats(32)}")
    error = e.op(f"fsub {wide} {odd}, {e.op(f'fpext {floats(32)} {near} to {wide}')}")
    error = e.op(f"fptrunc {wide} {error} to {floats(32)}")
    return to_odd(e, near, error, 32)


@operation("add", "sub")
def _add(e: Emitter, d: Decoder) -> None:
    if d.is_float:
        arithmetic(e, d, d.root, 2)
    else:
        _add_integers(e, d)


@operation("mul")
def _mul(e: Emitter, d: Decoder) -> None:
    if d.is_float:
        arithmetic(e, d, "mul", 2)
    else:
        multiply(e, d)


@operation("mad", "fma")
def _fma(e: Emitter, d: Decoder) -> None:
    if d.is_float:
        arithmetic(e, d, "fma", 3)
    else:
        _multiply_add(e, d)


@operation("div")
def _div(e: Emitter, d: Decoder) -> None:
    if d.is_float:
        arithmetic(e, d, "div", 2)
    else:
        divide(e, d)


@operation("sqrt")
def _sqrt(e: Emitter, d: Decoder) -> None:
    arithmetic(e, d, "sqrt", 1)


def high_half(e: Emitter, value: str) -> str:
    """Return doubles without the low half of their bits."""
    raw = e.cast(value, floats(64), vector(64))
    return e.cast(
        e.op(f"and {vector(64)} {raw}, {constant(0xFFFFFFFF00000000, 64)}"), vector(64), floats(64)
    )


@operation("rcp")
def _rcp(e: Emitter, d: Decoder) -> None:
    kind = d.type
    of = floats(_COMPUTED[kind])
    a = value_of(e, d, d.operands[1], kind)
    if d.rounding != "rn" and not (d.has("approx") and kind == "f64"):
        value = directed(e, "div", d.rounding, _COMPUTED[kind], [one_of(of), a], of)
    else:
        value = e.op(f"fdiv {of} {one_of(of)}, {a}")
    if d.has("approx") and kind == "f64":
        value = high_half(e, value)
    put_value(e, d, value, kind)


@operation("rsqrt")
def _rsqrt(e: Emitter, d: Decoder) -> None:
    kind = d.type
    value = value_of(e, d, d.operands[1], kind)
    wide = floats(64)
    if kind == "f32":
        value = e.op(f"fpext {floats(32)} {value} to {wide}")
    value = e.op(f"fdiv {wide} {one_of(wide)}, {intrinsic(e, 'sqrt', wide, value)}")
    if kind == "f32":
        value = e.op(f"fptrunc {wide} {value} to {floats(32)}")
    elif d.has("ftz"):
        value = high_half(e, value)
    put_value(e, d, value, kind)


_APPROXIMATIONS = {"sin": "sin", "cos": "cos", "lg2": "log2", "ex2": "exp2", "tanh": "tanh"}


@operation(*_APPROXIMATIONS)
def _approximation(e: Emitter, d: Decoder) -> None:
    kind = d.type
    if loops() is None:
        raise UnsupportedError("this NumPy has its functions elsewhere")
    of = floats(32)
    value = value_of(e, d, d.operands[1], kind)
    places = [e.slot(vector(32), number) for number in (20, 21)]
    e.line(f"store {of} {value}, ptr {places[0]}, align 8")
    which = LOOPS.index(_APPROXIMATIONS[d.root])
    e.call("approximate", "void", f"ptr %c, i32 {which}, ptr {places[0]}, ptr {places[1]}")
    put_value(e, d, e.op(f"load {of}, ptr {places[1]}, align 8"), kind)


def smaller(e: Emitter, a: str, b: str, width: int, *, larger: bool) -> str:
    """Return the smaller or larger float: a number is it beside NaN, and -0 is less than +0."""
    of, raw = floats(width), vector(width)
    less = e.op(f"fcmp {'ogt' if larger else 'olt'} {of} {a}, {b}")
    value = choose(e, less, of, a, b)
    nan = e.op(f"fcmp uno {of} {b}, {b}")
    value = choose(e, nan, of, a, value)
    name = "and" if larger else "or"
    joined = e.op(f"{name} {raw} {e.cast(a, of, raw)}, {e.cast(b, of, raw)}")
    same = e.op(f"fcmp oeq {of} {a}, {b}")
    # Equal numbers have equal bits, unless they are zeros.
    return choose(e, same, of, e.cast(joined, raw, of), value)


@operation("min", "max")
def _extreme(e: Emitter, d: Decoder) -> None:
    if not d.is_float:
        extreme_of_integers(e, d)
        return

    def compute(values: list[str], kind: str) -> str:
        if d.has("abs") and not d.has("xorsign"):
            of = floats(_COMPUTED[kind])
            values = [intrinsic(e, "fabs", of, each) for each in values]
        value = values[0]
        for other in values[1:]:
            value = _of_two(e, d, value, other, _COMPUTED[kind])
        return value

    each_number(e, d, d.operands[1:], compute)


def _of_two(e: Emitter, d: Decoder, a: str, b: str, width: int) -> str:
    of, raw = floats(width), vector(width)
    x, y = a, b
    if d.has("xorsign"):
        x, y = (intrinsic(e, "fabs", of, each) for each in (a, b))
    value = smaller(e, x, y, width, larger=d.root == "max")
    if d.has("NaN"):
        nan = e.op(f"fcmp uno {of} {a}, {b}")
        quiet = constant(0x7FC00000 if width == 32 else 0x7FF8000000000000, width)
        value = choose(e, nan, of, e.cast(quiet, raw, of), value)
    if d.has("xorsign"):
        both = e.op(f"xor {raw} {e.cast(a, of, raw)}, {e.cast(b, of, raw)}")
        value = intrinsic(e, "copysign", of, value, e.cast(both, raw, of))
    return value


@operation("neg", "abs")
def _sign(e: Emitter, d: Decoder) -> None:
    kind = d.type
    width = width_of(kind)
    of = vector(width)
    if not d.is_float:
        (a,) = integers(e, d, 1)
        if d.root == "neg":
            value = e.op(f"sub {of} zeroinitializer, {a}")
        else:
            value = magnitude(e, a, width)
        e.target(d.operands[0], value, kind)
        return
    sign = 1 << width - 1
    if kind.endswith("x2"):
        sign |= sign >> width // 2
    raw = e.number(d.operands[1], kind)
    if d.has("ftz"):
        raw = e.cast(flush(e, e.cast(raw, of, floats(width)), kind), floats(width), of)
    if d.root == "neg":
        value = e.op(f"xor {of} {raw}, {constant(sign, width)}")
    else:
        value = e.op(f"and {of} {raw}, {constant(~sign, width)}")
    e.target(d.operands[0], value, unsigned(kind))


@operation("copysign")
def _copysign(e: Emitter, d: Decoder) -> None:
    a, b = (e.float(d.operands[number], d.type) for number in (1, 2))
    of = floats(width_of(d.type))
    e.target_float(d.operands[0], intrinsic(e, "copysign", of, b, a), d.type)


@operation("testp")
def _testp(e: Emitter, d: Decoder) -> None:
    kind = d.type
    width = width_of(kind)
    of = floats(width)
    a = e.float(d.operands[1], kind)
    size = intrinsic(e, "fabs", of, a)
    element = of.split()[2].rstrip(">")
    infinity = e.splat("0x7FF0000000000000", element)
    smallest = e.splat(_SMALLEST[kind], element)
    test = d.first(("finite", "infinite", "number", "notanumber", "normal", "subnormal"))
    if test == "normal":
        below = e.op(f"fcmp olt {of} {size}, {infinity}")
        value = e.op(f"and {PRED} {below}, {e.op(f'fcmp oge {of} {size}, {smallest}')}")
    elif test == "subnormal":
        some = e.op(f"fcmp une {of} {a}, zeroinitializer")
        value = e.op(f"and {PRED} {some}, {e.op(f'fcmp olt {of} {size}, {smallest}')}")
    else:
        form = {
            "finite": f"olt {of} {size}, {infinity}",
            "infinite": f"oeq {of} {size}, {infinity}",
            "number": f"ord {of} {a}, {a}",
            "notanumber": f"uno {of} {a}, {a}",
        }
        value = e.op(f"fcmp {form[test]}")
    e.target(d.operands[0], value, "pred")


# Conversion

_INTEGRAL = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@operation("cvt")
def _cvt(e: Emitter, d: Decoder) -> None:
    result, kind = d.types
    if result in FLOATS and kind in FLOATS:
        _between_floats(e, d, result, kind)
    elif result in FLOATS:
        _to_float(e, d, result, kind)
    elif kind in FLOATS:
        _to_integer(e, d, result, kind)
    else:
        _between_integers(e, d, result, kind)


def _between_integers(e: Emitter, d: Decoder, result: str, kind: str) -> None:
    value = e.number(d.operands[1], kind)
    have, want = width_of(kind), width_of(result)
    of = vector(have)
    if d.has("sat"):
        source, target = (
            (-(1 << width - 1), (1 << width - 1) - 1) if is_signed(each) else (0, (1 << width) - 1)
            for each, width in ((kind, have), (result, want))
        )
        low, high = max(source[0], target[0]), min(source[1], target[1])
        sign = "s" if is_signed(kind) else "u"
        value = intrinsic(e, f"{sign}max", of, value, constant(low, have))
        value = intrinsic(e, f"{sign}min", of, value, constant(high, have))
    if want < have:
        value = e.op(f"trunc {of} {value} to {vector(want)}")
    elif want > have:
        value = e.op(f"{'sext' if is_signed(kind) else 'zext'} {of} {value} to {vector(want)}")
    e.target(d.operands[0], value, result)


def _to_integer(e: Emitter, d: Decoder, result: str, kind: str) -> None:
    value = value_of(e, d, d.operands[1], kind, flushes=d.has("ftz") and kind == "f32")
    wide = floats(64)
    if kind != "f64":
        value = e.op(f"fpext {floats(32)} {value} to {wide}")
    value = intrinsic(e, _INTEGRAL[d.first(_INTEGRAL) or "rzi"], wide, value)
    width = width_of(result)
    of = vector(width)
    name = "fptosi" if is_signed(result) else "fptoui"
    function = f"{of} @llvm.{name}.sat.v8i{width}.v8f64"
    e.declare(f"declare {function}({wide})")
    number = e.op(f"call {function}({wide} {value})")
    if width == 64 or kind == "f64":
        nan = e.op(f"fcmp uno {wide} {value}, {value}")
        number = choose(e, nan, of, constant(1 << width - 1, width), number)
    e.target(d.operands[0], number, result)


def _to_float(e: Emitter, d: Decoder, result: str, kind: str) -> None:
    value = e.number(d.operands[1], kind)
    have = width_of(kind)
    width = _COMPUTED[result]
    mode = d.rounding
    sign = "s" if is_signed(kind) else "u"
    if mode != "rn":
        if have < 32:
            change = "sext" if sign == "s" else "zext"
            value = e.op(f"{change} {vector(have)} {value} to {vector(32)}")
            have = 32
        value = directed(e, f"{sign}{have}", mode, width, [value], vector(have))
    else:
        value = e.op(f"{sign}itofp {vector(have)} {value} to {floats(width)}")
    if result == "f16":
        # An integer that float has no room for is beyond all of f16.
        e.target_float(d.operands[0], e.op(f"fptrunc {floats(32)} {value} to {floats(16)}"), "f16")
        return
    e.target_float(d.operands[0], value, result)


def _between_floats(e: Emitter, d: Decoder, result: str, kind: str) -> None:
    mode = d.rounding
    ftz = d.has("ftz")
    if result in ("f16x2", "bf16x2"):
        _to_pair(e, d, result, ftz=ftz)
        return
    if result == "tf32":
        _to_tf32(e, d, mode)
        return
    same = result == kind
    value = value_of(e, d, d.operands[1], kind, flushes=ftz and (same or kind == "f32"))
    have, want = _COMPUTED[kind], _COMPUTED[result]
    integral = _INTEGRAL.get(d.first(_INTEGRAL))
    if integral:
        value = intrinsic(e, integral, floats(have), value)
    if have < want:
        value = e.op(f"fpext {floats(have)} {value} to {floats(want)}")
    elif have > want and mode != "rn":
        value = directed(e, "narrow", mode, 32, [value], floats(64))
    elif have > want:
        value = e.op(f"fptrunc {floats(have)} {value} to {floats(want)}")
    put_value(e, d, value, result, flushes=ftz and (same or result == "f32"))


def _to_pair(e: Emitter, d: Decoder, result: str, *, ftz: bool) -> None:
    parts = []
    for number in (2, 1):
        value = value_of(e, d, d.operands[number], "f32", flushes=ftz)
        if result == "bf16x2":
            raw = to_bf16(e, value)
        else:
            short = e.op(f"fptrunc {floats(32)} {value} to {floats(16)}")
            raw = without_payload(e, value, short)
        parts.append(e.op(f"zext {vector(16)} {raw} to {vector(32)}"))
    high = e.op(f"shl {vector(32)} {parts[1]}, splat (i32 16)")
    e.target(d.operands[0], e.op(f"or {vector(32)} {high}, {parts[0]}"), "b32")


def _to_tf32(e: Emitter, d: Decoder, mode: str) -> None:
    of = vector(32)
    raw = e.number(d.operands[1], "f32")
    value = e.cast(raw, of, floats(32))
    if mode == "rna":
        up = constant(0x1000, 32)
    elif mode == "rn":
        odd = e.op(f"and {of} {e.op(f'lshr {of} {raw}, splat (i32 13)')}, splat (i32 1)")
        up = e.op(f"add {of} {odd}, {constant(0xFFF, 32)}")
    else:
        up = "zeroinitializer"
    nan = e.op(f"fcmp uno {floats(32)} {value}, {value}")
    raw = choose(e, nan, of, constant(0x7FFFFFFF, 32), e.op(f"add {of} {raw}, {up}"))
    e.target(d.operands[0], e.op(f"and {of} {raw}, {constant(0xFFFFE000, 32)}"), "b32")


@operation("cvta")
def _cvta(e: Emitter, d: Decoder) -> None:
    space = space_of(d, "")
    value = e.source(d.operands[1], 64)
    if WINDOWS[space]:
        name = "sub" if d.has("to") else "add"
        value = e.op(f"{name} {vector(64)} {value}, {constant(WINDOWS[space], 64)}")
    e.target(d.operands[0], value, "b64")


@operation("isspacep")
def _isspacep(e: Emitter, d: Decoder) -> None:
    space = space_of(d, "")
    of = vector(64)
    value = e.source(d.operands[1], 64)
    if space == "global":
        holds = e.op(f"icmp ult {of} {value}, {constant(WINDOWS['shared'], 64)}")
    elif space == "const":
        holds = "zeroinitializer"
    else:
        window = e.op(f"lshr {of} {value}, {constant(WINDOW_SHIFT, 64)}")
        holds = e.op(f"icmp eq {of} {window}, {constant(WINDOWS[space] >> WINDOW_SHIFT, 64)}")
    e.target(d.operands[0], holds, "pred")


@operation("createpolicy")
def _createpolicy(e: Emitter, d: Decoder) -> None:
    e.target(d.operands[0], "zeroinitializer", "b64")


@operation(*names(WITHOUT_EFFECT))
def _nothing(e: Emitter, d: Decoder) -> None:
    pass
