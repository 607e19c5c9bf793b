"""Values that nothing wrote: loads mark them, and each instruction passes on the bits that depend on them.

A frame has such bits for registers alone that have any, so programs without such values pay for a look at an empty dictionary.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .decoder import Decoder
from .guards import Step
from .lanes import Lanes
from .ptx_types import S64, U8, U64, UNSIGNED, Array, Integer, Register, Vector
from .shadows import COMPUTED, UNWRITTEN, WRITTEN, Touched

if TYPE_CHECKING:
    from .checked import Site

_ALL = np.uint64(2**64 - 1)
_NONE = np.zeros(1, U64)


class Bits:
    """The bits of a register, for each lane of a frame: those that depend on bytes that nothing wrote."""

    def __init__(self, count: int) -> None:
        self.bits = np.zeros(count, U64)
        self.computed = np.zeros(count, bool)
        self.place = np.zeros(count, S64)  # where a load has found such bytes
        self.memory: Any = None


def of(lanes: Lanes, register: int) -> tuple[Array, Array]:
    """Return the bits of a register of lanes, and whether each was computed."""
    known = lanes.frame.poison.get(register)
    if known is None:
        return _NONE, np.zeros(1, bool)
    return (known.bits, known.computed) if lanes.index is None else (known.bits[lanes.index], known.computed[lanes.index])


def put(lanes: Lanes, register: int, bits: Array, computed: Any = False, place: Any = 0, memory: Any = None) -> None:
    """Set the bits of a register of lanes."""
    frame = lanes.frame
    known = frame.poison.get(register)
    if not bits.any():
        if known is not None:
            known.bits[slice(None) if lanes.index is None else lanes.index] = 0
            if not known.bits.any():
                del frame.poison[register]
        return
    if known is None:
        known = frame.poison[register] = Bits(frame.count)
    where = slice(None) if lanes.index is None else lanes.index
    known.bits[where], known.computed[where], known.place[where] = bits, computed, place
    known.memory = memory or known.memory


def moved(decoder: Decoder) -> Callable[[Lanes], list[tuple[Array, Any]]] | None:
    """Return the function that computes the bits of each result of an instruction that moves bits; None for one that computes."""
    root, operands = decoder.parts[0], decoder.operands
    again = Decoder(decoder.program, decoder.function, decoder.instruction)

    def bits(operand: Any) -> Callable[[Lanes], tuple[Array, Array]]:
        if isinstance(operand, Register):
            return lambda lanes: of(lanes, operand.number)
        return lambda lanes: (_NONE, np.zeros(1, bool))

    def value(operand: Any) -> Callable[[Lanes], Array]:
        dtype = UNSIGNED[operand.dtype.itemsize] if isinstance(operand, Register) and operand.dtype.itemsize > 1 else U64
        source = again.source(operand, dtype)
        return lambda lanes: source(lanes).astype(U64)

    if root in ("mov", "cvta", "cvt") and len(operands) == 2 and (root != "cvt" or all(kind[0] in "sub" for kind in decoder.types)):
        target, source = operands
        if isinstance(source, Vector):  # a pack: each part has a place
            width = 8 * (target.dtype.itemsize // len(source.parts))
            parts = [bits(part) for part in source.parts]

            def pack(lanes: Lanes) -> list[tuple[Array, Any]]:
                total, computed = _NONE, np.zeros(1, bool)
                for number, part in enumerate(parts):
                    some, flag = part(lanes)
                    total = total | (some & np.uint64((1 << width) - 1)) << np.uint64(number * width)
                    computed = computed | flag
                return [(total, computed)]

            return pack
        one = bits(source)
        if isinstance(target, Vector):
            step = 8 * (source.dtype.itemsize // len(target.parts)) if isinstance(source, Register) else 64
            mask = np.uint64((1 << step) - 1)
            return lambda lanes: [
                (one(lanes)[0] >> np.uint64(number * step) & mask, one(lanes)[1])
                for number, part in enumerate(target.parts) if isinstance(part, Register)
            ]  # fmt: skip
        narrow = min([8 * target.dtype.itemsize, *(int(kind[1:]) for kind in decoder.types if root == "cvt")], default=64)
        keep = np.uint64((1 << narrow) - 1)
        return lambda lanes: [(one(lanes)[0] & keep, one(lanes)[1])]
    if root in ("and", "or") and all(isinstance(each, Register | Integer) for each in operands[1:]) and decoder.type != "pred":
        first, second = (bits(each) for each in operands[1:])
        left, right = (value(each) for each in operands[1:])
        flip = _ALL if root == "or" else np.uint64(0)

        def mask_bits(lanes: Lanes) -> list[tuple[Array, Any]]:
            (a, x), (b, y) = first(lanes), second(lanes)
            return [(a & b | a & (right(lanes) ^ flip) | b & (left(lanes) ^ flip), x | y)]

        return mask_bits
    if root in ("shl", "shr") and isinstance(operands[2], Integer):
        one, by = bits(operands[1]), np.uint64(min(operands[2].value, 63))
        size = np.uint64((1 << 8 * decoder.dtype.itemsize) - 1)
        return lambda lanes: [((one(lanes)[0] << by if root == "shl" else one(lanes)[0] >> by) & size, one(lanes)[1])]
    if root == "selp":
        yes, no, chosen = bits(operands[1]), bits(operands[2]), bits(operands[3])
        holds = again.source(3, np.dtype(bool))

        def select(lanes: Lanes) -> list[tuple[Array, Any]]:
            condition, by = holds(lanes), chosen(lanes)[0] != 0
            (a, x), (b, y) = yes(lanes), no(lanes)
            return [(np.where(by, _ALL, np.where(condition, a, b)), np.where(condition, x, y) | by)]

        return select
    return None


class Poison:
    """Follows values, and reports those on which something depends."""

    def __init__(self, checks: frozenset[str]) -> None:
        self.copies = "copies" in checks

    def report(self, site: "Site", lanes: Lanes, bad: Array, register: int, use: str) -> None:
        """Report that lanes use a register, and take its value as written from now on."""
        positions = np.flatnonzero(np.broadcast_to(bad, (lanes.count,)))
        execution: Any = lanes.frame.execution
        known = lanes.frame.poison[register]
        first = positions[0] if lanes.index is None else lanes.index[positions[0]]
        detail = f"depends on {execution.element(site, int(known.place[first]), known.memory)[0]}, which nothing wrote"
        execution.sanitizer.report(execution, "init", f"uninitialised ({use})", site, lanes.lanes[positions], detail)
        put(lanes, register, np.where(np.broadcast_to(bad, (lanes.count,)), np.uint64(0), of(lanes, register)[0]), known.computed.any())

    def plain(self, decoder: Decoder, step: Step) -> Step:
        """Return a step of an instruction without memory that passes on the bits."""
        reads, writes = sorted(decoder.reads), sorted(decoder.writes)
        move = moved(decoder)

        def follow(lanes: Lanes) -> None:
            poison = lanes.frame.poison
            where = slice(None) if lanes.index is None else lanes.index
            sources = [poison[register] for register in reads if register in poison]
            place: Any = 0
            for each in sources:
                place = np.where(each.bits[where] != 0, each.place[where], place)
            memory = sources[0].memory if sources else None
            results: list[tuple[Array, Any]] = []
            if sources and move is not None:
                results = move(lanes)
            elif sources:
                bad = _NONE != 0
                for register in reads:
                    bad = bad | (of(lanes, register)[0] != 0)
                results = [(np.where(bad, _ALL, np.uint64(0)), bad)] * len(writes)
            step(lanes)
            for number, register in enumerate(writes):
                if number < len(results):
                    put(lanes, register, *results[number], place, memory)
                elif register in poison:
                    put(lanes, register, _NONE)

        return lambda lanes: follow(lanes) if lanes.frame.poison else step(lanes)

    def guard(self, site: "Site", step: Step) -> Step:
        """Return a guarded step that reports a predicate."""
        register = site.instruction.guard.number if site.instruction.guard is not None else -1

        def run(lanes: Lanes) -> None:
            if register in lanes.frame.poison and (bad := of(lanes, register)[0] != 0).any():
                self.report(site, lanes, bad, register, "branch")
            step(lanes)

        return run

    def end(self, site: "Site", lanes: Lanes) -> None:
        """Report what the end of a block depends on."""
        for register in site.reads:
            if register in lanes.frame.poison and (bad := of(lanes, register)[0] != 0).any():
                self.report(site, lanes, bad, register, "branch" if site.root in ("bra", "brx") else "shuffle")
        for register in site.writes:
            if register in lanes.frame.poison:
                put(lanes, register, _NONE)

    # Memory

    def memory(self, site: "Site", lanes: Lanes, touched: list[Touched]) -> None:
        """Follow the values of an instruction that has accessed memory."""
        if lanes.frame.poison:
            for register in site.address:
                if register in lanes.frame.poison and (bad := of(lanes, register)[0] != 0).any():
                    self.report(site, lanes, bad, register, "address")
        loads = site.root in ("ld", "ldu")
        if loads and lanes.frame.poison:
            for register in site.writes:
                if register in lanes.frame.poison:
                    put(lanes, register, _NONE)
        if (
            site.root == "cp"
            and len(touched) == 2
            and touched[0].dtype == touched[1].dtype
            and len(touched[0].index) == len(touched[1].index)
        ):
            source, target = touched if touched[0].access == "read" else touched[::-1]
            for number in range(source.count):
                states = source.memory.bytes_written.view(source.dtype).take(source.index + number)
                target.memory.bytes_written.view(target.dtype)[target.index + number] = states
            return
        for each in touched:
            if each.access == "read":
                if loads and not each.memory.full():
                    self.load(site, each)
            elif site.root == "st" and lanes.frame.poison:
                self.store(site, lanes, each)
            else:
                if site.root in ("atom", "red") and not each.memory.full():
                    self.update(site, each)
                each.memory.mark(each)

    def load(self, site: "Site", each: Touched) -> None:
        """Mark the registers of lanes that have loaded bytes that nothing wrote."""
        size = each.dtype.itemsize
        view = each.memory.bytes_written.view(each.dtype)
        for number, register in enumerate(site.targets):
            states = view.take(each.index + number if number else each.index)
            if register is None or not states.any():
                continue
            table = states.view(U8).reshape(-1, size)
            bits = np.where(table == WRITTEN, U8.type(0), U8.type(255)).reshape(-1).view(each.dtype).astype(U64)
            computed = each.lanes.spread((table == COMPUTED).any(axis=1))
            put(each.lanes, register, each.lanes.spread(bits), computed, (each.index + number) * size, each.memory)

    def store(self, site: "Site", lanes: Lanes, each: Touched) -> None:
        """Mark the bytes that lanes have stored as what their registers are, and report those in global memory."""
        size = each.dtype.itemsize
        view = each.memory.bytes_written
        for number, register in enumerate(site.sources):
            bits, computed = of(each.lanes, register) if register is not None else (_NONE, np.zeros(1, bool))
            start = (each.lanes.spread(each.index) + number) * size
            if each.memory.is_global and register is not None:
                bad = (bits != 0) & (computed | self.copies)
                if bad.any():
                    self.report(site, each.lanes, bad, register, "stored result" if computed[bad].any() else "copy")
                    bits, computed = of(each.lanes, register)
            for byte in range(size):
                state = np.where(bits >> np.uint64(8 * byte) & np.uint64(255) == 0, WRITTEN, np.where(computed, COMPUTED, UNWRITTEN))
                view[start + byte] = state
        each.memory.changed, each.memory.complete = True, False
        if each.memory.is_global and lanes.frame.poison:
            execution: Any = lanes.frame.execution
            execution.sanitizer.doubt(execution.arena.base + int(each.index.flat[0]) * size)

    def update(self, site: "Site", each: Touched) -> None:
        """Report atomic updates of bytes that nothing wrote."""
        if "exch" in site.instruction.opcode:
            return
        size = each.dtype.itemsize
        bad = each.memory.bytes_written.view(UNSIGNED[size]).take(each.index) != WRITTEN
        if bad.any():
            lanes = each.lanes
            execution: Any = lanes.frame.execution
            positions = np.flatnonzero(np.broadcast_to(bad, (lanes.count,)))
            place = int(np.broadcast_to(each.index, (lanes.count,))[positions[0]]) * size
            detail = f"updates {execution.element(site, place, each.memory)[0]}, which nothing wrote"
            execution.sanitizer.report(execution, "init", "uninitialised (atomic)", site, lanes.lanes[positions], detail)
