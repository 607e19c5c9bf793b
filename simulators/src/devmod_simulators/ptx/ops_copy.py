"""Asynchronous copies to and from shared memory. They happen at once, so to wait for them does
nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ops_mbarrier import arrive, changing, expect, shared_offset, update
from devmod_simulators.ptx.ops_memory import load, save
from devmod_simulators.ptx.ops_tensor import tensor_copy
from devmod_simulators.ptx.ptx_types import DTYPES, U8, U32, U64, UNSIGNED, Array, Integer


@operation("cp")
def _cp(decoder: Decoder) -> Step:
    """Decode cp.async: the copy happens at once, so waiting for it does nothing."""
    if decoder.parts[1] != "async":  # cp.reduce.async
        raise decoder.unsupported()
    if decoder.has("bulk"):
        return bulk_copy(decoder)
    if decoder.parts[2] in ("commit_group", "wait_group", "wait_all"):
        return lambda lanes: None
    if decoder.has("mbarrier"):
        # The copies before it have ended, so it is an arrival.
        return changing(decoder, 0, Integer(int(decoder.has("noinc"))), arrive)
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
    fetch_byte = load("global", U8)
    put_byte = save("shared", U8)
    length = None
    if len(decoder.operands) > 3:
        length = decoder.source(3, DTYPES["u32"])

    def run(lanes: Lanes) -> None:
        to = target(lanes)
        of = source(lanes)
        if length is None:
            put(lanes, to, fetch(lanes, of))
            return
        # The bytes past the length are zeros.
        put(lanes, to, [np.zeros(1, dtype)] * count)
        amount = np.minimum(length(lanes), DTYPES["u32"].type(size))
        for number in range(int(amount.max())):
            inside = np.flatnonzero(lanes.spread(amount) > number)
            part = lanes.select(inside, [])
            values = fetch_byte(part, lanes.spread(of)[inside] + of.dtype.type(number))
            put_byte(part, lanes.spread(to)[inside] + to.dtype.type(number), values)

    return run


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
    fetch = load(source, U64, 2)
    put = save(to, U64, 2)

    def run(lanes: Lanes) -> None:
        sizes = lanes.spread(size(lanes)).astype(np.int64)
        chunks = sizes // 16
        positions = np.repeat(np.arange(lanes.count), chunks)
        steps = (np.arange(len(positions)) - np.repeat(np.cumsum(chunks) - chunks, chunks)) * 16
        part = lanes.select(positions, [])

        def places(address: Array) -> Any:
            if address.dtype == U64 and to == "shared":
                address = shared_offset(address)
            whole = lanes.spread(address)[positions]
            return whole + steps.astype(whole.dtype)

        put(part, places(target(lanes)), fetch(part, places(origin(lanes))))
        if signal is not None:
            update(lanes, signal(lanes), expect, [-int(value) for value in sizes])

    return run
