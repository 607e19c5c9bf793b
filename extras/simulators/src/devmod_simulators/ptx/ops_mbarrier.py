"""Barriers in shared memory (mbarrier).

A barrier is a 64-bit word. PTX leaves its format open; here it has, from the lowest bit: 20 bits of
arrivals that are missing, 20 bits of arrivals that a phase has, 22 bits of bytes that are missing
(with an offset), and the phase in the highest bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, Target, operation
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.memory import WINDOWS, Access
from devmod_simulators.ptx.ops_memory import locate_shared
from devmod_simulators.ptx.ptx_types import PRED, U32, U64, Array, Integer, Name

_COUNT = (1 << 20) - 1
_BYTES = (1 << 22) - 1
_NO_BYTES = 1 << 21
_PHASE = 63
_CHANGE = Access("mbarrier access", U64)
_LOOK = Access("read", U64)


class Word:
    """The fields of a barrier."""

    def __init__(self, bits: int) -> None:
        self.missing = bits & _COUNT
        self.arrivals = bits >> 20 & _COUNT
        self.bytes = (bits >> 40 & _BYTES) - _NO_BYTES
        self.phase = bits >> _PHASE

    def is_valid(self) -> bool:
        """Return whether each field has a number of its range."""
        counts = (self.missing, self.arrivals)
        return all(0 <= each <= _COUNT for each in counts) and abs(self.bytes) <= _COUNT

    def bits(self) -> int:
        """Return the word, after the phase has ended if nothing is missing."""
        if not self.missing and not self.bytes:
            self.phase ^= 1
            self.missing = self.arrivals
        return (
            self.missing
            | self.arrivals << 20
            | (self.bytes + _NO_BYTES) << 40
            | self.phase << _PHASE
        )


Change = Callable[[Word, int], None]


def update(lanes: Lanes, address: Array, change: Change, counts: list[int]) -> Array:
    """Change the barrier of each lane by its count, one lane after the other, and return the words
    before.
    """
    view, index = locate_shared(lanes, shared_offset(address), _CHANGE)
    before = []
    ends = []
    places = lanes.spread(index).tolist()
    for position, (count, place) in enumerate(zip(counts, places, strict=True)):
        bits = int(view[place])
        before.append(bits)
        word = Word(bits)
        change(word, count)
        if not word.is_valid():
            missing = f"{word.missing} arrivals and {word.bytes} bytes"
            raise lanes.error(
                "CUDA_ERROR_ILLEGAL_INSTRUCTION",
                f"an mbarrier is not initialized, or has too many arrivals or bytes: {missing} are missing",
                position,
            )
        view[place] = word.bits()
        ends.append(int(view[place]) >> _PHASE != bits >> _PHASE)
    lanes.frame.execution.arrived(lanes, places, ends)
    return np.array(before, U64)


def shared_offset(address: Array) -> Array:
    """Return addresses in shared memory of generic ones or of those in shared memory."""
    if address.dtype == U64:
        window = np.uint64(WINDOWS["shared"])
        return np.where(address >= window, address - window, address)
    return address


@operation("mbarrier")
def _mbarrier(decoder: Decoder) -> Step:
    kind = decoder.parts[1]
    makers = {
        "arrive": _arrive,
        "arrive_drop": _arrive,
        "test_wait": _wait,
        "try_wait": _wait,
        "pending_count": _pending,
    }
    changes = {
        "init": begin,
        "expect_tx": expect,
        "complete_tx": lambda word, count: expect(word, -count),
    }
    if kind == "inval":
        return lambda lanes: None
    if kind in changes:
        return changing(decoder, 0, decoder.operands[1], changes[kind])
    return makers[kind](decoder)


def changing(
    decoder: Decoder, position: int, number: Any, change: Change, out: Target | None = None
) -> Step:
    """Return the step of an instruction that changes barriers, and may return the words before."""
    address = decoder.address(position)
    count = decoder.source(number, U32)

    def run(lanes: Lanes) -> None:
        before = update(lanes, address(lanes), change, lanes.spread(count(lanes)).tolist())
        if out is not None:
            out(lanes, before)

    return run


def begin(word: Word, count: int) -> None:
    """Begin with the first phase."""
    word.missing = word.arrivals = count
    word.bytes = word.phase = 0


def expect(word: Word, count: int) -> None:
    """Add to the bytes that are missing."""
    word.bytes += count


def arrive(word: Word, count: int) -> None:
    """Count arrivals."""
    word.missing -= count


def _arrive(decoder: Decoder) -> Step:
    operands = decoder.operands
    transaction = decoder.has("expect_tx")
    drop = decoder.parts[1] == "arrive_drop"
    position = 0
    out = None
    if len(operands) > 1 and not hasattr(operands[0], "base"):
        position = 1
        if not isinstance(operands[0], Name):
            out = decoder.target(0, U64)
    if len(operands) > position + 1:
        number = operands[position + 1]
    else:
        number = Integer(0 if transaction else 1)

    def change(word: Word, count: int) -> None:
        arrivals = count
        if transaction:
            arrivals = 1
            expect(word, count)
        if drop:
            word.arrivals -= arrivals
        arrive(word, arrivals)

    return changing(decoder, position, number, change, out)


def _wait(decoder: Decoder) -> Step:
    out = decoder.target(0, PRED)
    address = decoder.address(1)
    parity = decoder.has("parity")
    relaxed = decoder.has("relaxed")
    state = decoder.source(2, U32 if parity else U64)

    def run(lanes: Lanes) -> None:
        view, index = locate_shared(lanes, shared_offset(address(lanes)), _LOOK)
        words = view.take(index)
        value = state(lanes)
        if parity:
            wanted = (value & U32.type(1)).astype(U64)
        else:
            wanted = value >> np.uint64(_PHASE)
        done = (words >> np.uint64(_PHASE)) != wanted
        if not relaxed:
            lanes.frame.execution.waited(lanes, index, done)
        out(lanes, done)

    return run


def _pending(decoder: Decoder) -> Step:
    out = decoder.target(0, U32)
    state = decoder.source(1, U64)
    return lambda lanes: out(lanes, (state(lanes) & np.uint64(_COUNT)).astype(U32))
