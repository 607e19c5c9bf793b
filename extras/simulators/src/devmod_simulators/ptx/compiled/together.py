"""The ends of units: what depends on other lanes, or changes the flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from devmod_simulators.ptx.compiled import context
from devmod_simulators.ptx.compiled.accesses import (
    Access,
    address_of,
    load,
    prepare,
    site,
    store,
)
from devmod_simulators.ptx.compiled.context import (
    ELEMENTS,
    GENERIC,
    LOAD,
    MOST_ELEMENTS,
    OPERATIONS,
    SHARED,
    SPACES,
    STORE,
)
from devmod_simulators.ptx.compiled.emit import constant, vector
from devmod_simulators.ptx.compiled.operations import choose, pair
from devmod_simulators.ptx.decoder import Decoder
from devmod_simulators.ptx.errors import UnsupportedError
from devmod_simulators.ptx.memory import WINDOWS
from devmod_simulators.ptx.ops_fragments import MATRIX, fragment_places
from devmod_simulators.ptx.ops_matrix import Product, register_type, values_in_register
from devmod_simulators.ptx.ptx_types import Integer, Register

if TYPE_CHECKING:
    from devmod_simulators.ptx.compiled.emit import Emitter

End = Callable[["Emitter"], None]
_MODES = ("up", "down", "bfly", "idx")
_VOTES = ("ballot", "any", "all", "uni")


def lanes_of(e: Emitter) -> str:
    """Return the register with the lanes that run the unit."""
    return f"%m{e.unit.number}"


def _decoder(e: Emitter) -> Decoder:
    assert e.unit.last is not None
    return Decoder(e.program, e.copy.code.function, e.unit.last)


def _jump(e: Emitter) -> None:
    e.tail()
    e.go(e.unit.next, lanes_of(e), is_now=True)


def _branch(e: Emitter) -> None:
    end = e.unit.block.end
    key = (e.copy.number, end.guard)
    e.known(key, 1)
    e.tail()
    lanes = lanes_of(e)
    holds = e.all_lanes(key)
    if end.negated:
        holds = e.op(f"xor i32 {holds}, -1")
    taken = e.op(f"and i32 {holds}, {lanes}")
    others = e.op(f"xor i32 {taken}, {lanes}")
    all_taken, some, none, part = (e.label() for _ in range(4))
    e.line(f"br i1 {e.op(f'icmp eq i32 {others}, 0')}, label %{all_taken}, label %{some}")
    e.line(f"{all_taken}:")
    e.go(e.unit.taken, lanes, is_now=True)
    e.line(f"{some}:")
    e.line(f"br i1 {e.op(f'icmp eq i32 {taken}, 0')}, label %{none}, label %{part}")
    e.line(f"{none}:")
    e.go(e.unit.next, lanes, is_now=True)
    e.line(f"{part}:")
    e.queue(e.unit.taken, taken)
    e.queue(e.unit.next, others)
    e.line("br label %dispatch")


def _leave(e: Emitter) -> None:
    e.tail()
    lanes = lanes_of(e)
    if e.unit.block.end.kind == "trap":
        e.call("trap", "i32", f"ptr %c, ptr %w, i32 {lanes}, i32 {e.unit.number}")
        e.line("ret i32 2")
        return
    e.call("leave", "void", f"ptr %c, ptr %w, i32 {lanes}")
    e.line("br label %dispatch")


def _parameters(e: Emitter, number: int, name: str) -> list[tuple[Any, ...]]:
    """Return the keys of the parts of a parameter that a copy of a function uses."""
    return [key for key in e.registers if len(key) == 5 and key[0] == number and key[2] == name]


def _call(e: Emitter) -> None:
    """Pass arguments to the parameters of a copy, which has the parts that the caller has."""
    copy = e.unit.other
    assert copy is not None
    end = e.unit.block.end
    for argument, variable in zip(end.arguments, copy.code.function.params, strict=False):
        for key in _parameters(e, e.copy.number, argument):
            target = (copy.number, "param", variable.name, *key[3:])
            e.write(e.known(target, key[4]), e.read(key))
    _jump(e)


def _return(e: Emitter) -> None:
    """Pass results to the caller."""
    copy = e.unit.other
    assert copy is not None
    assert copy.parent is not None
    for name, variable in zip(copy.results, copy.code.function.results, strict=False):
        for key in _parameters(e, copy.number, variable.name):
            target = (copy.parent.number, "param", name, *key[3:])
            e.write(e.known(target, key[4]), e.read(key))
    _jump(e)


def _table(e: Emitter) -> None:
    d = _decoder(e)
    e.put_scratch(0, e.source(d.operands[0], 32), 32)
    e.tail()
    targets = ", ".join(f"i32 {each}" for each in e.unit.targets)
    count = len(e.unit.targets)
    name = f"@table{e.unit.number}"
    e.declare(f"{name} = private constant [{count} x i32] [{targets}]")
    state = e.call(
        "table",
        "i32",
        f"ptr %c, ptr %w, i32 {lanes_of(e)}, ptr {e.scratch(0)}, ptr {name}, i32 {count}, i32 {e.unit.number}",
    )
    e.fails(state)
    e.line("br label %dispatch")


# Operations of a warp


def _wait(e: Emitter, number: int) -> int:
    """Add a unit in which lanes wait, and return its place among them."""
    unit = e.unit
    e.waits.append(context.Wait(number, unit.number, unit.next))
    return len(e.waits) - 1


def _members(e: Emitter, mask: Any) -> str:
    """Return a pointer to the masks of all lanes, that are the same if it is a literal. Without a
    mask, all lanes are members.
    """
    if mask is None:
        mask = Integer(0xFFFFFFFF)
    if not isinstance(mask, Integer):
        return e.scratch(3)
    value = mask.value & 0xFFFFFFFF
    name = f"@members{value}"
    values = ", ".join([f"i32 {value}"] * context.WARP)
    e.declare(f"{name} = private constant [{context.WARP} x i32] [{values}]")
    return name


def _warp(e: Emitter) -> None:
    d = _decoder(e)
    is_barrier = d.root in ("bar", "barrier")
    lanes = lanes_of(e)
    sources: list[tuple[Any, int]] = []
    run: Any = None
    mask = None
    if d.root in MATRIX:
        mask = Integer(0xFFFFFFFF)
    elif is_barrier or d.has("sync"):
        mask = e.plain(d.operands[0] if is_barrier else d.operands[-1])
    if not is_barrier:
        sources, run = _OPERATIONS_OF_WARPS[d.root](e, d, mask)
    if mask is not None and not isinstance(mask, Integer):
        e.put_scratch(3, e.source(mask, 32), 32)
    e.tail()
    if d.root == "shfl":
        _shuffle_all(e, d, lanes)
    if mask is not None:
        _wait(e, -2 if is_barrier else -1)
        arguments = f"ptr %c, ptr %w, i32 {lanes}, i32 {e.unit.number}, ptr {_members(e, mask)}"
        ready = e.call("gather", "i32", arguments)
        some = e.label()
        none = e.op(f"icmp eq i32 {ready}, 0")
        e.line(f"br i1 {none}, label %dispatch, label %{some}")
        e.line(f"{some}:")
        lanes = ready
    if run is not None:
        if sources:
            # Of lanes that waited, too.
            e.new_region(lanes)
            for place, (operand, width) in enumerate(sources):
                e.put_scratch(place, e.source(operand, width), width)
            if not isinstance(mask, Integer) and mask is not None:
                e.put_scratch(3, e.source(mask, 32), 32)
            e.tail()
        run(lanes)
    e.go(e.unit.next, lanes)


def _shuffle_all(e: Emitter, d: Decoder, lanes: str) -> None:
    """Move the values of a whole warp between lanes that the text has."""
    first, second = pair(d)
    value, selector, packed = map(e.plain, d.operands[1:4])
    if not isinstance(selector, Integer) or not isinstance(packed, Integer):
        return
    registers = [each for each in (value, first) if isinstance(each, Register)]
    if len(registers) != 2 or any(each.dtype.itemsize != 4 for each in registers):
        return
    mode = d.first(_MODES)
    operand = selector.value & 31
    clamp, segment = packed.value & 31, packed.value >> 8 & 31
    places = []
    valid = 0
    for lane in range(context.WARP):
        begin = lane & segment
        limit = begin | (clamp & ~segment)
        source = {
            "up": lane - operand,
            "down": lane + operand,
            "bfly": lane ^ operand,
            "idx": begin | (operand & ~segment),
        }[mode]
        holds = source >= limit if mode == "up" else source <= limit
        valid |= int(holds) << lane
        places.append(source if holds else lane)
    whole, part = e.label(), e.label()
    e.line(f"br i1 {e.op(f'icmp eq i32 {lanes}, -1')}, label %{whole}, label %{part}")
    e.line(f"{whole}:")
    source_key, target_key = map(e.key, registers)
    e.region.tail_reads.add(source_key)
    kind = f"<{context.WARP} x i32>"
    loaded = e.op(f"load {kind}, ptr {e.at('%w', e.registers[source_key][0])}, align 32")
    order = ", ".join(f"i32 {place}" for place in places)
    moved = e.op(f"shufflevector {kind} {loaded}, {kind} poison, {kind} <{order}>")
    e.line(f"store {kind} {moved}, ptr {e.at('%w', e.registers[target_key][0])}, align 32")
    if isinstance(second, Register):
        place = e.at("%w", e.registers[e.key(second)][0])
        e.line(f"store i32 {valid}, ptr {place}")
    e.go(e.unit.next, lanes, is_now=True)
    e.line(f"{part}:")


def _put(e: Emitter, lanes: str, target: Any, predicate: Any, bits: str, kind: str = "b32") -> None:
    """Give lanes the results of engine.c: those in memory, and bits of a predicate."""
    e.new_region(lanes)
    if target is not None:
        e.target(target, e.get_scratch(4, 32), kind)
    if predicate is not None:
        e.target(predicate, e.bits_of_lanes(bits), "pred")
    e.tail()


def _shfl(e: Emitter, d: Decoder, mask: Any) -> tuple[list[tuple[Any, int]], Any]:
    first, second = pair(d)
    sources = [(d.operands[number], 32) for number in (1, 2, 3)]
    mode = _MODES.index(d.first(_MODES))

    def run(lanes: str) -> None:
        values = ", ".join(f"ptr {e.scratch(place)}" for place in (0, 1, 2, 4))
        bits = e.call("shuffle", "i32", f"ptr %w, i32 {lanes}, i32 {mode}, {values}")
        _put(e, lanes, first, second, bits)

    return sources, run


def _vote(e: Emitter, d: Decoder, mask: Any) -> tuple[list[tuple[Any, int]], Any]:
    mode = _VOTES.index(d.first(_VOTES))

    def run(lanes: str) -> None:
        flags = e.op(f"load i32, ptr {e.scratch(0)}")
        values = f"ptr {_members(e, mask)}, ptr {e.scratch(4)}"
        bits = e.call("vote", "i32", f"ptr %w, i32 {lanes}, i32 {mode}, i32 {flags}, {values}")
        if mode == 0:
            _put(e, lanes, d.operands[0], None, "")
        else:
            _put(e, lanes, None, d.operands[0], bits)

    return [(d.operands[1], 1)], run


def _match(e: Emitter, d: Decoder, mask: Any) -> tuple[list[tuple[Any, int]], Any]:
    first, second = pair(d)
    everyone = int(d.has("all"))

    def run(lanes: str) -> None:
        values = f"ptr {e.scratch(0)}, ptr {_members(e, mask)}, ptr {e.scratch(4)}"
        bits = e.call("match", "i32", f"ptr %w, i32 {lanes}, i32 {everyone}, {values}")
        _put(e, lanes, first, second if everyone else None, bits)

    return [(d.operands[1], 64)], run


def _redux(e: Emitter, d: Decoder, mask: Any) -> tuple[list[tuple[Any, int]], Any]:
    kind = d.type
    code = OPERATIONS.index(d.first(OPERATIONS)) + len(OPERATIONS) * int(kind == "s32")

    def run(lanes: str) -> None:
        values = f"ptr {e.scratch(0)}, ptr {_members(e, mask)}, ptr {e.scratch(4)}"
        e.call("reduce", "i32", f"ptr %w, i32 {lanes}, i32 {code}, {values}")
        _put(e, lanes, d.operands[0], None, "")

    return [(d.operands[1], 32)], run


def _elect(e: Emitter, d: Decoder, mask: Any) -> tuple[list[tuple[Any, int]], Any]:
    first, second = pair(d)

    def run(lanes: str) -> None:
        values = f"ptr {_members(e, mask)}, ptr {e.scratch(4)}"
        bits = e.call("elect", "i32", f"ptr %w, i32 {lanes}, i32 0, {values}")
        _put(e, lanes, first, second, bits)

    return [], run


def _activemask(e: Emitter, d: Decoder, mask: Any) -> tuple[list[tuple[Any, int]], Any]:
    def run(lanes: str) -> None:
        e.new_region(lanes)
        e.target(d.operands[0], e.splat(lanes, "i32"), "b32")
        e.tail()

    return [], run


# Matrices


def _places(e: Emitter, parts: list[Any], width: int, *, reads: bool) -> list[int]:
    """Return where the registers of a fragment are in a warp; 0 for one that is not written. Those
    that are read are there when lanes have left the region.
    """
    places = []
    for part in parts:
        operand = e.plain(part) if reads else part
        if isinstance(operand, Register):
            key = e.key(operand)
            if e.registers[key][1] != width:
                raise UnsupportedError("a register of another width in a matrix")
        elif reads:
            key = e.known((e.copy.number, "literal", operand.value, width), width)
            e.write(key, e.source(operand, width))
        else:
            raise UnsupportedError("a matrix without a destination")
        if reads:
            e.region.tail_reads.add(key)
        places.append(e.registers[key][0])
    return places


def _constant(e: Emitter, name: str, numbers: list[int]) -> str:
    """Return a pointer to numbers of 32 bits."""
    name = f"@{name}{e.unit.number}"
    values = ", ".join(f"i32 {each}" for each in numbers)
    e.declare(f"{name} = private constant [{len(numbers)} x i32] [{values}]")
    return name


def _matrix(e: Emitter, d: Decoder, mask: Any) -> tuple[list[tuple[Any, int]], Any]:
    if d.root in ("ldmatrix", "stmatrix"):
        return [], _rows(e, d)
    if d.parts[1] in ("load", "store"):
        return [], lambda lanes: _fragment(e, d, lanes)
    whole = Product(d)
    target = (whole.kind, whole.parts, whole.operands[2], False)
    numbers = [*whole.shape, int(whole.clamps)]
    operands = [(each.kind, each.parts, each, True) for each in whole.operands]
    for kind, parts, fragment, reads in (*operands, target):
        width = 8 * register_type(kind).itemsize
        rows, columns = fragment.places
        count = len(parts) * values_in_register(kind)
        is_inside = rows.max() < fragment.rows and columns.max() < fragment.columns
        size = fragment.rows * fragment.columns
        if not is_inside or size > MOST_ELEMENTS or rows.shape[1] != count:
            raise UnsupportedError("a matrix of another size")
        numbers += [ELEMENTS.index(kind), len(parts), count]
        numbers += _places(e, parts, width, reads=reads)
        numbers += (rows * fragment.columns + columns).ravel().tolist()
    table = _constant(e, "product", numbers)
    return [], lambda lanes: e.call("product", "void", f"ptr %w, i32 {lanes}, ptr {table}")


def _rows(e: Emitter, d: Decoder) -> Callable[[str], None]:
    """Return what adds ldmatrix and stmatrix, whose lanes have the addresses of rows."""
    loads = d.root == "ldmatrix"
    places = _places(e, d.vector(int(not loads)), 32, reads=not loads)
    table = _constant(e, "matrix", places)

    def run(lanes: str) -> None:
        e.new_region(lanes)
        _, address = address_of(e, d.operands[int(loads)])
        window = constant(WINDOWS["shared"], 64)
        moved = e.op(f"sub {vector(64)} {address}, {window}")
        generic = e.op(f"icmp uge {vector(64)} {address}, {window}")
        e.put_scratch(0, choose(e, generic, vector(64), moved, address), 64)
        width = 16 if d.has("trans") else 32
        number = site(e, d, LOAD if loads else STORE, SHARED, width, 1)
        e.tail()
        arguments = f"i32 {lanes}, i32 {number}, i32 {len(places)}, ptr {e.scratch(0)}, ptr {table}"
        e.fails(e.call("matrix", "i32", f"ptr %c, ptr %w, {arguments}"))

    return run


def _fragment(e: Emitter, d: Decoder, lanes: str) -> None:
    """Add wmma.load and wmma.store, whose lanes access their elements one by one."""
    loads = d.parts[1] == "load"
    parts = d.vector(int(not loads))
    each = values_in_register(d.type)
    register = 8 * register_type(d.type).itemsize
    width = register // each
    minor, major = fragment_places(d, len(parts) * each)
    e.new_region(lanes)
    space, base = prepare(e, d, d.operands[int(loads)])
    step = constant(int(minor.max()) + 1, 64)
    if len(d.operands) > 2:
        stride = e.source(d.operands[2], 32)
        step = e.op(f"sext {vector(32)} {stride} to {vector(64)}")
    kind = vector(register)
    values = [] if loads else [e.source(part, register) for part in parts]
    for number in range(len(parts)):
        whole = "zeroinitializer"
        for place in range(each):
            element = number * each + place
            offset = e.op(f"mul {vector(64)} {_of_lanes(e, 'major', element, major)}, {step}")
            offset = e.op(f"add {vector(64)} {offset}, {_of_lanes(e, 'minor', element, minor)}")
            offset = e.op(f"mul {vector(64)} {offset}, {constant(width // 8, 64)}")
            address = e.op(f"add {vector(64)} {base}, {offset}")
            made = site(e, d, LOAD if loads else STORE, SPACES.get(space, GENERIC), width, 1)
            access = Access(e, made, space, address)
            shift = constant(width * place, register)
            if loads:
                (value,) = load(e, access, e.mask())
                if width < register:
                    value = e.op(f"zext {vector(width)} {value} to {kind}")
                whole = e.op(f"or {kind} {whole}, {e.op(f'shl {kind} {value}, {shift}')}")
            else:
                value = e.op(f"lshr {kind} {values[number]}, {shift}")
                if width < register:
                    value = e.op(f"trunc {kind} {value} to {vector(width)}")
                store(e, access, e.mask(), [value])
        if loads:
            e.target(parts[number], whole, f"b{register}")
    e.tail()


def _of_lanes(e: Emitter, name: str, element: int, numbers: Any) -> str:
    """Return a number that each lane of the chunk has for an element."""
    table = f"@{name}{e.unit.number}.{element}"
    values = ", ".join(f"i64 {each}" for each in numbers[:, element].tolist())
    e.declare(f"{table} = private constant [{context.WARP} x i64] [{values}]")
    place = e.op(f"getelementptr i64, ptr {table}, i32 %f32.{e.region.number}")
    return e.op(f"load {vector(64)}, ptr {place}, align 8")


_OPERATIONS_OF_WARPS: dict[
    str, Callable[[Emitter, Decoder, Any], tuple[list[tuple[Any, int]], Any]]
]
_OPERATIONS_OF_WARPS = {
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "elect": _elect,
    "activemask": _activemask,
    **dict.fromkeys(MATRIX, _matrix),
}


# Barriers of blocks


def _barrier(e: Emitter) -> None:
    d = _decoder(e)
    operands = list(d.operands)
    reduction = d.first(("popc", "and", "or"))
    if reduction:
        operands.pop(0)
        e.put_scratch(1, e.source(operands.pop(), 1), 1)
    number = e.plain(operands[0]) if operands else Integer(0)
    if not isinstance(number, Integer) or not 0 <= number.value < 16:
        raise UnsupportedError(f"{d.opcode}: a barrier in a register")
    threads = operands[1] if len(operands) > 1 else Integer(0)
    e.put_scratch(0, e.source(threads, 32), 32)
    e.tail()
    place = _wait(e, number.value)
    holds = "0"
    if reduction:
        holds = e.op(f"load i32, ptr {e.scratch(1)}")
    e.call(
        "arrive",
        "i32",
        f"ptr %c, ptr %w, i32 {lanes_of(e)}, i32 {place}, ptr {e.scratch(0)}, i32 {holds}, i32 {int(d.has('arrive'))}",
    )
    e.line("br label %dispatch")


def _finish(e: Emitter) -> None:
    """Give lanes the result of a barrier's reduction."""
    d = _decoder(e)
    how = ("popc", "or", "and").index(d.first(("popc", "and", "or")))
    number = next(
        (each.value for each in map(e.plain, d.operands[1:2]) if isinstance(each, Integer)), 0
    )
    value = e.call("reduced", "i32", f"ptr %c, ptr %w, i32 {number}, i32 {how}")
    if how:
        flag = e.op(f"icmp ne i32 {value}, 0")
        e.target(d.operands[0], e.splat(flag, "i1"), "pred")
    else:
        e.target(d.operands[0], e.splat(value, "i32"), "b32")
    _jump(e)


END_OF: dict[str, End] = {
    "jump": _jump,
    "branch": _branch,
    "leave": _leave,
    "table": _table,
    "call": _call,
    "return": _return,
    "warp": _warp,
    "barrier": _barrier,
    "finish": _finish,
}
