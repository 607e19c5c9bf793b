"""Copies of boxes of tensors (cp.async.bulk.tensor) with the descriptors of the stand-in driver
(drivers/libcuda/tensor_map.c).
"""

from __future__ import annotations

import struct

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step
from devmod_simulators.ptx.errors import PtxError
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ops_mbarrier import expect, shared_offset, update
from devmod_simulators.ptx.ops_memory import load, read_bytes, save
from devmod_simulators.ptx.ptx_types import S32, S64, U64, UNSIGNED, Address, Array

#: magic, address, sizes, strides, type, rank, box, strides of elements, interleave, swizzle,
#: promotion, fill.
_DESCRIPTOR = struct.Struct("<8sQ5Q4QII5H5HBBBB")
#: Bytes of an element, by CUtensorMapDataType.
_ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
#: The last CUtensorMapSwizzle whose number is that of the bits that it changes, of the address of
#: 16 bytes.
_SWIZZLE_128B = 3


class TensorMap:
    """A descriptor: a tensor in global memory and the size of its boxes."""

    def __init__(self, data: bytes, lanes: Lanes) -> None:
        fields = _DESCRIPTOR.unpack_from(data)
        magic, self.address = fields[:2]
        sizes = fields[2:7]
        strides = fields[7:11]
        kind, self.rank = fields[11:13]
        box = fields[13:18]
        steps = fields[18:23]
        interleave, swizzle, _, fill = fields[23:]
        if magic.rstrip(b"\0") != b"standin":
            raise lanes.error("CUDA_ERROR_ILLEGAL_INSTRUCTION", "the operand is no tensor map")
        if (
            interleave
            or swizzle > _SWIZZLE_128B
            or fill
            or any(step != 1 for step in steps[: self.rank])
        ):
            raise PtxError(
                "CUDA_ERROR_NOT_SUPPORTED",
                "the interpreter lacks tensor maps with interleave, fill, element strides or atoms of swizzle",
            )
        self.element = _ELEMENT_BYTES[kind]
        self.sizes = sizes[: self.rank]
        self.box = box[: self.rank]
        self.strides = (self.element, *strides)[: self.rank]
        self.swizzle = swizzle
        self.count = int(np.prod(self.box))

    def places(self, corner: list[int]) -> tuple[Array, Array]:
        """Return the global addresses of a box's elements, and which of them are inside of the
        tensor.
        """
        number = np.arange(self.count, dtype=S64)
        address = np.full(self.count, self.address, S64)
        inside = np.ones(self.count, bool)
        for first, size, length, stride in zip(
            corner, self.sizes, self.box, self.strides, strict=True
        ):
            place = number % length + first
            number = number // length
            inside &= (place >= 0) & (place < size)
            address += place * stride
        return address.view(U64), inside

    def shared_places(self, start: int) -> Array:
        """Return the shared addresses of a box's elements."""
        address = start + np.arange(self.count, dtype=S64) * self.element
        address ^= (address >> 7 & ((1 << self.swizzle) - 1)) << 4
        return address.astype(U64)


def tensor_copy(decoder: Decoder) -> Step:
    """Decode cp.async.bulk.tensor in tile mode."""
    into_shared = decoder.parts[5].startswith("shared")
    map_operand = 1 if into_shared else 0
    shared_operand = 1 - map_operand
    operand = decoder.operands[map_operand]
    (coordinates,) = operand.more
    corner = [decoder.source(part, S32) for part in coordinates.parts]
    descriptor = decoder.address(Address(operand.base, operand.offset))
    place = decoder.address(shared_operand)
    signal = None
    if into_shared:
        signal = decoder.address(2)
    # Without the predicate of the instruction, which the lanes have not.
    reads = sorted(decoder.reads)

    def run(lanes: Lanes) -> None:
        for number in range(lanes.count):
            lane = lanes.select(np.array([number]), reads)
            box = TensorMap(read_bytes(lane, int(descriptor(lane)[0]), 128), lane)
            address, inside = box.places([int(each(lane)[0]) for each in corner])
            shared = box.shared_places(int(shared_offset(place(lane))[0]))
            dtype = UNSIGNED[box.element]
            there = np.flatnonzero(inside)
            part = lane.select(np.zeros(len(there), int), [])
            if into_shared:
                values = np.zeros(box.count, dtype)
                if len(there):
                    values[there] = load("global", dtype)(part, address[there])[0]
                save("shared", dtype)(lane.select(np.zeros(box.count, int), []), shared, [values])
            elif len(there):
                save("global", dtype)(
                    part, address[there], load("shared", dtype)(part, shared[there])
                )
            if signal is not None:
                update(lane, signal(lane), expect, [-box.count * box.element])

    return run
