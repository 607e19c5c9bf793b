"""Asynchronous copies to and from shared memory. They happen at once, so to wait for them does
nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Source, Step, is_predicate, operation
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ops_mbarrier import arrive, changing, expect, shared_offset, update
from devmod_simulators.ptx.ops_memory import load, save
from devmod_simulators.ptx.ops_tensor import tensor_copy
from devmod_simulators.ptx.ptx_types import (
    PRED,
    S64,
    U8,
    U32,
    U64,
    UNSIGNED,
    Array,
    DType,
    Integer,
)


@operation("cp")
def _cp(decoder: Decoder) -> Step:
    """Decode cp.async: the copy happens at once, so waiting for it does nothing."""
    if decoder.has("bulk"):
        return bulk_copy(decoder)
    kind = decoder.parts[2]
    if kind in ("commit_group", "wait_group", "wait_all"):
        groups = decoder.operands[0].value if kind == "wait_group" else 0
        return lambda lanes: lanes.frame.execution.waited_for_copies(lanes, kind, groups)
    if decoder.has("mbarrier"):
        # The copies before it have ended, so it is an arrival.
        arrives = changing(decoder, 0, Integer(int(decoder.has("noinc"))), arrive)

        def end(lanes: Lanes) -> None:
            lanes.frame.execution.waited_for_copies(lanes, "wait_all", 0)
            arrives(lanes)

        return end
    target = decoder.address(0)
    source = decoder.address(1)
    operand = decoder.operands[2]
    if not isinstance(operand, Integer):
        raise decoder.invalid("the size is no integer")
    size = operand.value
    dtype = UNSIGNED[min(size, 8)]
    count = size // dtype.itemsize
    fetch = load("global", dtype, count)
    put = save("shared", dtype, count)
    copy_bytes = _copier("global", "shared", U8)
    length = None
    if len(decoder.operands) > 3:
        length = _length(decoder, size)

    def run(lanes: Lanes) -> None:
        to = target(lanes)
        of = source(lanes)
        if length is None:
            put(lanes, to, fetch(lanes, of))
            return
        # The bytes past the length are zeros.
        put(lanes, to, [np.zeros(1, dtype)] * count)
        lengths = np.minimum(lanes.spread(length(lanes)), U32.type(size))
        copy_bytes(lanes, lengths.astype(S64), to, of)

    return run


def _length(decoder: Decoder, size: int) -> Source:
    """Return the function for the bytes that cp.async copies, which the instruction has as a
    number, or as a predicate of the lanes that copy none.
    """
    if not is_predicate(decoder.operands[3]):
        return decoder.source(3, U32)
    ignores = decoder.source(3, PRED)
    return lambda lanes: np.where(ignores(lanes), U32.type(0), U32.type(size))


def _copier(
    source: str, target: str, dtype: DType, count: int = 1
) -> Callable[[Lanes, Array, Array, Array], None]:
    """Return the function that copies pieces of `count` elements between two spaces: as many as it
    gets numbers for lanes, to addresses and from others.
    """
    fetch = load(source, dtype, count)
    put = save(target, dtype, count)

    def copy(lanes: Lanes, pieces: Array, to: Array, of: Array) -> None:
        positions = np.repeat(np.arange(lanes.count), pieces)
        if not len(positions):
            return
        first = np.repeat(np.cumsum(pieces) - pieces, pieces)
        steps = (np.arange(len(positions)) - first) * (dtype.itemsize * count)
        to, of = (
            lanes.spread(address)[positions] + steps.astype(address.dtype) for address in (to, of)
        )
        part = lanes.select(positions, [])
        put(part, to, fetch(part, of))

    return copy


def bulk_copy(decoder: Decoder) -> Step:
    """Decode cp.async.bulk between global and shared memory, without tensor maps. The copy happens
    at once.
    """
    if decoder.parts[3] in ("commit_group", "wait_group", "prefetch"):
        return lambda lanes: None
    if decoder.parts[3] == "tensor":
        return tensor_copy(decoder)
    to, _, _ = decoder.parts[3].partition("::")
    source, _, _ = decoder.parts[4].partition("::")
    target = decoder.address(0)
    origin = decoder.address(1)
    size = decoder.source(2, U32)
    signal = None
    if len(decoder.operands) > 3 and any("mbarrier" in part for part in decoder.parts):
        signal = decoder.address(3)
    copy = _copier(source, to, U64, 2)

    def run(lanes: Lanes) -> None:
        sizes = lanes.spread(size(lanes)).astype(S64)
        there = target(lanes)
        if to == "shared":
            there = shared_offset(there)
        copy(lanes, sizes // 16, there, origin(lanes))
        if signal is not None:
            update(lanes, signal(lanes), expect, (-sizes).tolist())

    return run
