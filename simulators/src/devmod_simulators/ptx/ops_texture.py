"""Reads of textures, and reads and writes of surfaces, with the descriptors of the stand-in driver
(drivers/libcuda/textures.c).

The filter is that of the appendix "Texture Fetching" of CUDA's programming guide, with weights of 8
bits behind the point.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import product

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation, put_all
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ops_memory import load, read_bytes, save
from devmod_simulators.ptx.ptx_types import F32, S64, U32, U64, UNSIGNED, Address, Array, DType

#: magic, array, address, width, height, depth, dimensions, layered, format, channels, address
#: modes, filter, flags.
_DESCRIPTOR = struct.Struct("<8s5Q4I3III")
#: The dimensions of a geometry, and whether it has layers.
_GEOMETRIES = {
    "1d": (1, False),
    "2d": (2, False),
    "3d": (3, False),
    "a1d": (1, True),
    "a2d": (2, True),
}
#: NumPy's type of the texels, by CUarray_format.
_FORMATS = {1: "u1", 2: "u2", 3: "u4", 8: "i1", 9: "i2", 10: "i4", 16: "f2", 32: "f4"}
_REPEAT, _CLAMP, _MIRROR, _BORDER = range(4)
_READ_AS_INTEGER, _NORMALIZED = 1, 2


class Descriptor:
    """A texture or a surface object."""

    def __init__(self, lanes: Lanes, address: int, magic: bytes) -> None:
        data = read_bytes(lanes, address, _DESCRIPTOR.size)
        (
            name,
            _,
            self.address,
            *extent,
            self.dimensions,
            layered,
            kind,
            self.channels,
            x,
            y,
            z,
            linear,
            flags,
        ) = _DESCRIPTOR.unpack(data)
        if name.rstrip(b"\0") != magic:
            raise lanes.error(
                "CUDA_ERROR_ILLEGAL_INSTRUCTION", f"the operand is no {magic.decode()} object"
            )
        self.extent, self.layered, self.dtype = extent, bool(layered), np.dtype(_FORMATS[kind])
        self.modes, self.linear, self.flags = (x, y, z), bool(linear), flags
        self.texel = self.channels * self.dtype.itemsize

    def check(self, lanes: Lanes, geometry: str) -> None:
        """Check that an instruction's geometry is that of the array."""
        if (self.dimensions, self.layered) != _GEOMETRIES[geometry]:
            layers = " with layers" if self.layered else ""
            text = f"an instruction of geometry {geometry} has an array of {self.dimensions} dimensions{layers}"
            raise lanes.error("CUDA_ERROR_ILLEGAL_INSTRUCTION", text)

    def place(self, indices: list[Array]) -> Array:
        """Return the addresses of texels: x, y, z."""
        x, y, z = (*indices, *[np.zeros(1, S64)] * 2)[:3]
        return (self.address + ((z * self.extent[1] + y) * self.extent[0] + x) * self.texel).astype(
            U64
        )

    def texels(self, lanes: Lanes, indices: list[Array]) -> list[Array]:
        """Return the channels of texels as numbers."""
        fetch = load("global", UNSIGNED[self.dtype.itemsize], self.channels)
        values = [value.view(self.dtype) for value in fetch(lanes, self.place(indices))]
        if self.dtype.kind == "f" or self.flags & _READ_AS_INTEGER:
            return values
        return [
            np.maximum(value / np.float32(np.iinfo(self.dtype).max), np.float32(-1))
            for value in values
        ]

    def taps(self, axis: int, coordinate: Array) -> list[tuple[Array, Array, Array]]:
        """Return the indices that a coordinate reads, which of them are inside, and their
        weights.
        """
        length, mode = self.extent[axis], self.modes[axis]
        place = coordinate.astype(np.float64) * (length if self.flags & _NORMALIZED else 1)
        place = np.nan_to_num(np.clip(place, -(2.0**31), 2.0**31))
        first = np.floor(place - 0.5 if self.linear else place)
        weight = (
            np.floor((place - 0.5 - first) * 256 + 0.5) / 256
            if self.linear
            else np.zeros(len(place))
        )
        result = []
        for step in range(1 + self.linear):
            index = first.astype(S64) + step
            inside = (
                (index >= 0) & (index < length) if mode == _BORDER else np.ones(len(index), bool)
            )
            if mode == _REPEAT:
                index = index % length
            elif mode == _MIRROR:
                index = index % (2 * length)
                index = np.where(index < length, index, 2 * length - 1 - index)
            result.append((np.clip(index, 0, length - 1), inside, weight if step else 1 - weight))
        return result

    def fetch(self, lanes: Lanes, coordinates: list[Array], layer: Array | None) -> list[Array]:
        """Return the four channels that a texture read gives, as bits."""
        axes = [self.taps(axis, lanes.spread(each)) for axis, each in enumerate(coordinates)]
        behind = [] if layer is None else self._layer(lanes, layer)
        total = [np.zeros(lanes.count, np.float64 if self.linear else self.dtype) for _ in range(4)]
        is_whole = bool(self.flags & _READ_AS_INTEGER)
        if not is_whole:
            total = [each.astype(np.float64) for each in total]
        for taps in product(*axes):
            inside = np.logical_and.reduce([each[1] for each in taps])
            weight = np.prod([each[2] for each in taps], axis=0)
            for number, value in enumerate(self.texels(lanes, [each[0] for each in taps] + behind)):
                total[number] = total[number] + (
                    np.where(inside, value, 0) if is_whole else np.where(inside, value * weight, 0)
                )
            if self.channels < 4:
                total[3] = total[3] + (np.where(inside, 1, 0) if is_whole else inside * weight)
        if is_whole:
            return [each.astype(np.int64).astype(U32) for each in total]
        return [each.astype(F32).view(U32) for each in total]

    def _layer(self, lanes: Lanes, layer: Array) -> list[Array]:
        number = np.clip(lanes.spread(layer).astype(S64), 0, self.extent[2] - 1)
        return [number] if self.dimensions == 2 else [np.zeros(len(number), S64), number]


class _Access:
    """The object and the coordinates of an instruction."""

    def __init__(self, decoder: Decoder, operand: Address, coordinate: DType, magic: bytes) -> None:
        self.geometry = decoder.first(tuple(_GEOMETRIES))
        if not self.geometry:
            raise decoder.unsupported("the interpreter lacks textures of this geometry")
        self.dimensions, self.layered = _GEOMETRIES[self.geometry]
        (coordinates,) = operand.more
        _, self.object = decoder.address(Address(operand.base, operand.offset), U64)
        parts = decoder.vector(coordinates)
        self.layer = decoder.source(parts.pop(0), U32) if self.layered else None
        self.coordinates = [decoder.source(part, coordinate) for part in parts[: self.dimensions]]
        self.decoder, self.magic = decoder, magic

    def run(self, lanes: Lanes, action: Callable[[Lanes, Array | None, Descriptor], None]) -> None:
        """Call `action` for the lanes of each object."""
        objects, reads = self.object(lanes), sorted(self.decoder.reads)
        for address in np.unique(objects):
            positions = (
                None
                if len(objects) == 1 or (objects == address).all()
                else np.flatnonzero(objects == address)
            )
            part = lanes if positions is None else lanes.select(positions, reads)
            descriptor = Descriptor(part, int(address), self.magic)
            descriptor.check(part, self.geometry)
            action(part, positions, descriptor)


@operation("tex")
def _tex(decoder: Decoder) -> Step:
    if (
        decoder.types[-1:] != ["f32"]
        or decoder.types[-2] not in ("f32", "s32", "u32")
        or decoder.has("grad")
    ):
        raise decoder.unsupported()
    operand = decoder.operands[1]
    if len(operand.more) != 1:
        raise decoder.unsupported("the interpreter lacks textures with a sampler of their own")
    access = _Access(decoder, operand, F32, b"texture")
    targets = [decoder.target(part, U32) for part in decoder.vector(0)]

    def run(lanes: Lanes) -> None:
        results = [np.zeros(lanes.count, U32) for _ in range(4)]

        def fetch(part: Lanes, positions: Array | None, texture: Descriptor) -> None:
            coordinates = [each(part) for each in access.coordinates]
            values = texture.fetch(
                part, coordinates, access.layer(part) if access.layer is not None else None
            )
            for whole, value in zip(results, values, strict=True):
                whole[slice(None) if positions is None else positions] = value

        access.run(lanes, fetch)
        put_all(lanes, targets, results)

    return run


@operation("suld", "sust")
def _surface(decoder: Decoder) -> Step:
    is_load = decoder.parts[0] == "suld"
    dtype = UNSIGNED[decoder.dtype.itemsize]
    mode = decoder.first(("trap", "clamp", "zero"), "trap")
    if not decoder.has("b"):
        raise decoder.unsupported()
    access = _Access(decoder, decoder.operands[1 if is_load else 0], U32, b"surface")
    parts = decoder.vector(0 if is_load else 1)
    targets = [decoder.target(part, dtype) for part in parts] if is_load else []
    sources = [] if is_load else [decoder.source(part, dtype) for part in parts]
    size = dtype.itemsize * len(parts)

    def places(lanes: Lanes, surface: Descriptor) -> tuple[Array, Array]:
        """Return the addresses, and which of them are inside of the surface."""
        indices = [
            lanes.spread(each(lanes)).view(np.int32).astype(S64) for each in access.coordinates
        ]
        if access.layer is not None:
            indices += [np.zeros(lanes.count, S64)] * (2 - len(indices))
            indices.append(lanes.spread(access.layer(lanes)).astype(S64))
        row = surface.extent[0] * surface.texel
        limits = [row - size, *(each - 1 for each in surface.extent[1:])][: len(indices)]
        inside = np.logical_and.reduce(
            [(each >= 0) & (each <= limit) for each, limit in zip(indices, limits, strict=True)]
        )
        inside &= indices[0] % size == 0
        if mode == "trap" and not inside.all():
            position = int(np.flatnonzero(~inside)[0])
            at = ", ".join(str(int(each[position])) for each in indices)
            text = f"an access of {size} bytes at ({at}), x in bytes, is outside of a surface "
            text += f"of rows of {row} bytes and {surface.extent[1:]}"
            raise lanes.error("CUDA_ERROR_LAUNCH_FAILED", f"{text}, or not aligned", position)
        if mode == "clamp":
            indices = [
                np.clip(each, 0, max(limit, 0)) for each, limit in zip(indices, limits, strict=True)
            ]
            inside = np.ones(lanes.count, bool)
        x, y, z = (*indices, *[np.zeros(1, S64)] * 2)[:3]
        return np.where(
            inside, surface.address + (z * surface.extent[1] + y) * row + x, surface.address
        ).astype(U64), inside

    def run(lanes: Lanes) -> None:
        results = [np.zeros(lanes.count, dtype) for _ in targets]

        def act(part: Lanes, positions: Array | None, surface: Descriptor) -> None:
            address, inside = places(part, surface)
            if is_load:
                for whole, value in zip(
                    results, load("global", dtype, len(targets))(part, address), strict=True
                ):
                    whole[slice(None) if positions is None else positions] = np.where(
                        inside, value, 0
                    )
                return
            there = np.flatnonzero(inside)
            values = [part.spread(source(part))[there] for source in sources]
            if len(there):
                save("global", dtype, len(sources))(part.select(there, []), address[there], values)

        access.run(lanes, act)
        put_all(lanes, targets, results)

    return run
