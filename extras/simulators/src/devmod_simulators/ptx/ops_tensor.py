"""Copies of boxes of tensors (cp.async.bulk.tensor) with the descriptors of the stand-in driver
(drivers/libcuda/tensor_map.c), and descriptors that a kernel makes (tensormap).
"""

from __future__ import annotations

import struct

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation
from devmod_simulators.ptx.errors import PtxError
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ops_mbarrier import expect, shared_offset, update
from devmod_simulators.ptx.ops_memory import load, operand_of, read_bytes, save
from devmod_simulators.ptx.ptx_types import (
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    UNSIGNED,
    Address,
    Array,
    Integer,
)

#: magic, address, sizes, strides, type, rank, box, strides of elements, interleave, swizzle,
#: promotion, fill; the atoms of swizzle, which a kernel alone sets.
_DESCRIPTOR = struct.Struct("<8sQ5Q4QII5H5HBBBBB")
#: Bytes of an element, by CUtensorMapDataType.
_ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
#: The last CUtensorMapSwizzle whose number is that of the bits that it changes, of the address of
#: 16 bytes.
_SWIZZLE_128B = 3
_MAX_BOX = 256
_BYTES = 128
#: The fields that tensormap.replace changes: the offset and the type in a descriptor. One that each
#: dimension has is followed by those of the others.
_FIELDS = {
    "global_address": (8, U64),
    "global_dim": (16, U64),
    "global_stride": (56, U64),
    "elemtype": (88, U32),
    "rank": (92, U32),
    "box_dim": (96, U16),
    "element_stride": (106, U16),
    "interleave_layout": (116, U8),
    "swizzle_mode": (117, U8),
    "fill_mode": (119, U8),
    "swizzle_atomicity": (120, U8),
}
#: The most dimensions for which tensormap.replace has a field.
_DIMENSIONS = {"global_dim": 5, "global_stride": 4, "box_dim": 5, "element_stride": 5}
#: CUtensorMapDataType by the number of PTX, where f32.ftz is behind f32. Elements of 4 and 6 bits
#: have other numbers.
_ELEMENTS = np.array([0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12], U32)


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
        interleave, swizzle, _, fill, atoms = fields[23:]
        # Where a kernel has made it in zeros, it has no name.
        is_map = magic.rstrip(b"\0") in (b"standin", b"") and 1 <= self.rank <= len(sizes)
        if not is_map or not all(sizes[: self.rank]):
            raise lanes.error("CUDA_ERROR_ILLEGAL_INSTRUCTION", "the operand is no tensor map")
        if not all(1 <= length <= _MAX_BOX for length in box[: self.rank]):
            raise lanes.error(
                "CUDA_ERROR_ILLEGAL_INSTRUCTION",
                f"expected a box of 1 to {_MAX_BOX} elements in each dimension, got {list(box[: self.rank])}",
            )
        if (
            interleave
            or swizzle > _SWIZZLE_128B
            or fill
            or atoms
            or kind >= len(_ELEMENT_BYTES)
            or any(step != 1 for step in steps[: self.rank])
        ):
            raise PtxError(
                "CUDA_ERROR_NOT_SUPPORTED",
                "the interpreter lacks tensor maps with interleave, fill, element strides, atoms of swizzle, or elements of 4 or 6 bits",
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
            box = TensorMap(read_bytes(lane, int(descriptor(lane)[0]), _BYTES), lane)
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


@operation("tensormap")
def _tensormap(decoder: Decoder) -> Step:
    """Decode tensormap.replace, which changes a field of a descriptor, and
    tensormap.cp_fenceproxy, which copies one.
    """
    if decoder.has("cp_fenceproxy"):
        return _copy_map(decoder)
    name = decoder.parts[3]
    offset, dtype = _FIELDS[name]
    if name in _DIMENSIONS:
        ordinal = decoder.operands[1]
        count = _DIMENSIONS[name]
        if not isinstance(ordinal, Integer) or not 0 <= ordinal.value < count:
            raise decoder.invalid(f"expected a dimension of 0 to {count - 1}")
        offset += ordinal.value * dtype.itemsize
    space, address, step = operand_of(decoder, 0)
    new = decoder.source(len(decoder.operands) - 1, U64 if decoder.has("b64") else U32)
    put = save(space, dtype, step=step + offset)

    def run(lanes: Lanes) -> None:
        value = new(lanes)
        if name == "rank":
            value = value + U32.type(1)
        elif name == "elemtype":
            known = value < len(_ELEMENTS)
            value = np.where(known, _ELEMENTS[np.where(known, value, 0)], U32.type(len(_ELEMENTS)))
        if dtype.itemsize < value.itemsize:
            # One that is too large does not become a valid one.
            value = np.minimum(value, np.iinfo(dtype).max)
        put(lanes, address(lanes), [value.astype(dtype)])

    return run


def _copy_map(decoder: Decoder) -> Step:
    """Decode tensormap.cp_fenceproxy: the threads of a warp copy one descriptor together."""
    operand = decoder.operands[2]
    if not isinstance(operand, Integer) or operand.value != _BYTES:
        raise decoder.invalid(f"expected {_BYTES} bytes")
    target = decoder.address(0)
    origin = decoder.address(1)
    count = _BYTES // U64.itemsize
    fetch = load("shared", U64, count)
    put = save("global", U64, count)
    reads = sorted(decoder.reads)

    def run(lanes: Lanes) -> None:
        first = np.flatnonzero(lanes.spread(lanes.column("laneid")) == 0)
        some = lanes.select(first, reads)
        put(some, target(some), fetch(some, shared_offset(origin(some))))

    return run
