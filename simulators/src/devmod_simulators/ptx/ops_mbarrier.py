"""Barriers in shared memory (mbarrier).

A barrier is a 64-bit word. PTX leaves its format open; here it has, from the lowest bit: 20 bits of arrivals that are missing,
20 bits of arrivals that a phase has, 22 bits of bytes that are missing (with an offset), and the phase in the highest bit.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .decoder import Decoder, Source, operation
from .guards import Step
from .memory import SHARED_WINDOW
from .ops_memory import load, locate_shared
from .ptx_types import PRED, U32, U64, Array, Integer, Name

if TYPE_CHECKING:
    from .lanes import Lanes

_COUNT = (1 << 20) - 1
_BYTES = (1 << 22) - 1
_NO_BYTES = 1 << 21
_PHASE = 63


class Word:
    """The fields of a barrier."""

    def __init__(self, bits: int) -> None:
        self.missing = bits & _COUNT
        self.arrivals = bits >> 20 & _COUNT
        self.bytes = (bits >> 40 & _BYTES) - _NO_BYTES
        self.phase = bits >> _PHASE

    def bits(self) -> int:
        """Return the word, after the phase has ended if nothing is missing."""
        if not self.missing and not self.bytes:
            self.phase ^= 1
            self.missing = self.arrivals
        return self.missing | self.arrivals << 20 | (self.bytes + _NO_BYTES) << 40 | self.phase << _PHASE


def update(lanes: "Lanes", address: Array, change: Callable[[Word, int], None]) -> Array:
    """Change the barrier of each lane, one lane after the other, and return the words before."""
    view, index = locate_shared(lanes, shared_offset(address), 8, U64, "mbarrier access")
    places = lanes.spread(index).tolist()
    before = []
    for lane, place in enumerate(places):
        bits = int(view[place])
        before.append(bits)
        word = Word(bits)
        change(word, lane)
        view[place] = word.bits()
    return np.array(before, U64)


def shared_offset(address: Array) -> Array:
    """Return addresses in shared memory of generic ones or of those in shared memory."""
    if address.dtype == U64:
        return np.where(address >= np.uint64(SHARED_WINDOW), address - np.uint64(SHARED_WINDOW), address)
    return address


@operation("mbarrier")
def _mbarrier(decoder: Decoder) -> Step:
    kind = decoder.parts[1]
    makers = {
        "init": _init,
        "inval": _inval,
        "arrive": _arrive,
        "arrive_drop": _arrive,
        "expect_tx": _transaction,
        "complete_tx": _transaction,
    }
    makers |= {"test_wait": _wait, "try_wait": _wait, "pending_count": _pending}
    return makers[kind](decoder)


def _init(decoder: Decoder) -> Step:
    _, address = decoder.address(0, U64)
    count = decoder.source(1, U32)

    def run(lanes: "Lanes") -> None:
        counts = lanes.spread(count(lanes)).tolist()

        def change(word: Word, lane: int) -> None:
            word.missing = word.arrivals = counts[lane]
            word.bytes = word.phase = 0

        update(lanes, address(lanes), change)

    return run


def _inval(decoder: Decoder) -> Step:
    decoder.address(0, U64)
    return lambda lanes: None


def _arrive(decoder: Decoder) -> Step:
    operands = decoder.operands
    result = len(operands) > 1 and not hasattr(operands[0], "base")
    position = 1 if result else 0
    out = decoder.target(0, U64) if result and not isinstance(operands[0], Name) else None
    _, address = decoder.address(position, U64)
    transaction, drop = decoder.has("expect_tx"), decoder.parts[1] == "arrive_drop"
    number: Source = decoder.source(operands[position + 1] if len(operands) > position + 1 else Integer(0 if transaction else 1), U32)

    def run(lanes: "Lanes") -> None:
        counts = lanes.spread(number(lanes)).tolist()

        def change(word: Word, lane: int) -> None:
            arrivals = 1 if transaction else counts[lane]
            if transaction:
                word.bytes += counts[lane]
            if drop:
                word.arrivals -= arrivals
            word.missing -= arrivals

        before = update(lanes, address(lanes), change)
        if out is not None:
            out(lanes, before)

    return run


def _transaction(decoder: Decoder) -> Step:
    _, address = decoder.address(0, U64)
    number = decoder.source(1, U32)
    sign = 1 if decoder.parts[1] == "expect_tx" else -1
    return lambda lanes: complete(lanes, address(lanes), [sign * value for value in lanes.spread(number(lanes)).tolist()])


def complete(lanes: "Lanes", address: Array, counts: list[int]) -> None:
    """Add to the bytes that are missing."""

    def change(word: Word, lane: int) -> None:
        word.bytes += counts[lane]

    update(lanes, address, change)


def _wait(decoder: Decoder) -> Step:
    out = decoder.target(0, PRED)
    _, address = decoder.address(1, U64)
    parity = decoder.has("parity")
    state = decoder.source(2, U32 if parity else U64)

    def run(lanes: "Lanes") -> None:
        words = load("shared", U64, 1)(lanes, shared_offset(address(lanes)))[0]
        value = state(lanes)
        wanted = (value & U32.type(1)).astype(U64) if parity else value >> np.uint64(_PHASE)
        out(lanes, (words >> np.uint64(_PHASE)) != wanted)

    return run


def _pending(decoder: Decoder) -> Step:
    out, state = decoder.target(0, U32), decoder.source(1, U64)
    return lambda lanes: out(lanes, (state(lanes) & np.uint64(_COUNT)).astype(U32))
