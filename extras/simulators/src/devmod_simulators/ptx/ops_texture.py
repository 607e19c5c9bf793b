"""Reads of textures, and reads and writes of surfaces, with the descriptors of the stand-in driver
(drivers/libcuda/textures.c).

The filter is that of the appendix "Texture Fetching" of CUDA's programming guide, with weights of 8
bits behind the point.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from devmod_simulators.ptx.decoder import Decoder, Step, operation, put_all
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.ops_memory import load, read_bytes, save
from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    F32,
    S32,
    S64,
    U32,
    U64,
    UNSIGNED,
    Address,
    Array,
    DType,
)

#: magic, array, address, width, height, depth, pitch, dimensions, layered, format, channels,
#: address modes, filter, flags; of a mipmapped array: levels, filter, bias, least and most level.
#: The descriptors of its levels follow each other.
_DESCRIPTOR = struct.Struct("<8s6Q4I3IIIII3f")
#: Flags of an array: its last dimension is layers, six of which are the faces of a cube.
_LAYERS = 1
_CUBE = 4
#: The dimensions of a geometry, and the flags of its arrays.
_GEOMETRIES = {
    "1d": (1, 0),
    "2d": (2, 0),
    "3d": (3, 0),
    "a1d": (1, _LAYERS),
    "a2d": (2, _LAYERS),
    "cube": (2, _CUBE),
    "acube": (2, _CUBE | _LAYERS),
}
#: NumPy's type of the texels, by CUarray_format.
_FORMATS = {1: "u1", 2: "u2", 3: "u4", 8: "i1", 9: "i2", 10: "i4", 16: "f2", 32: "f4"}
#: Address modes.
_REPEAT = 0
_CLAMP = 1
_MIRROR = 2
_BORDER = 3
#: Flags.
_READ_AS_INTEGER = 1
_NORMALIZED = 2


class Descriptor:
    """A texture or a surface object."""

    def __init__(self, lanes: Lanes, address: int, magic: bytes) -> None:
        data = read_bytes(lanes, address, _DESCRIPTOR.size)
        (
            name,
            _,
            self.address,
            *self.extent,
            self.pitch,
            self.dimensions,
            self.layered,
            kind,
            self.channels,
            x,
            y,
            z,
            self.linear,
            self.flags,
            self.levels,
            self.blends_levels,
            self.bias,
            least,
            most,
        ) = _DESCRIPTOR.unpack(data)
        if name.rstrip(b"\0") != magic:
            raise lanes.error(
                "CUDA_ERROR_ILLEGAL_INSTRUCTION", f"the operand is no {magic.decode()} object"
            )
        self.own_address = address
        self.limits = (max(least, 0.0), min(most, self.levels - 1.0))
        self.dtype = np.dtype(_FORMATS[kind])
        self.modes = (x, y, z)
        if self.layered & _CUBE:
            self.modes = (_CLAMP,) * 3
        self.texel = self.channels * self.dtype.itemsize

    def check(self, lanes: Lanes, geometry: str, magic: bytes) -> None:
        """Check that an instruction's geometry is that of the array. The faces of a cube are layers
        of a surface.
        """
        is_face = self.layered & _CUBE and magic == b"surface" and geometry == "a2d"
        if (self.dimensions, self.layered) != _GEOMETRIES[geometry] and not is_face:
            layers = " with layers" if self.layered & _LAYERS else ""
            if self.layered & _CUBE:
                layers = " of a cube" + layers
            text = f"an instruction of geometry {geometry} has an array of {self.dimensions} dimensions{layers}"
            raise lanes.error("CUDA_ERROR_ILLEGAL_INSTRUCTION", text)

    def place(self, indices: list[Array]) -> Array:
        """Return the addresses of texels: x, y, z."""
        x, y, z = [*indices, *np.zeros((2, 1), S64)][:3]
        row = z * self.extent[1] + y
        return (self.address + row * self.pitch + x * self.texel).astype(U64)

    def texels(self, lanes: Lanes, indices: list[Array]) -> list[Array]:
        """Return the channels of texels as numbers."""
        fetch = load("global", UNSIGNED[self.dtype.itemsize], self.channels)
        values = [value.view(self.dtype) for value in fetch(lanes, self.place(indices))]
        if self.dtype.kind == "f" or self.flags & _READ_AS_INTEGER:
            return values
        most = np.float32(np.iinfo(self.dtype).max)
        return [np.maximum(value / most, np.float32(-1)) for value in values]

    def taps(self, axis: int, coordinate: Array) -> list[tuple[Array, Array, Array]]:
        """Return the indices that a coordinate reads, which of them are inside, and their
        weights. A coordinate that is an integer is an index.
        """
        if coordinate.dtype == S32:
            index, inside = self.wrapped(axis, coordinate.astype(S64))
            return [(index, inside, np.ones(len(coordinate)))]
        place = coordinate.astype(np.float64)
        if self.flags & _NORMALIZED:
            place = place * self.extent[axis]
        place = np.nan_to_num(np.clip(place, -(2.0**31), 2.0**31))
        if not self.linear:
            index, inside = self.wrapped(axis, np.floor(place).astype(S64))
            return [(index, inside, np.ones(len(place)))]

        first = np.floor(place - 0.5)
        weight = np.floor((place - 0.5 - first) * 256 + 0.5) / 256
        index, inside = self.wrapped(axis, first.astype(S64))
        next_index, next_inside = self.wrapped(axis, first.astype(S64) + 1)
        return [(index, inside, 1 - weight), (next_index, next_inside, weight)]

    def wrapped(self, axis: int, index: Array) -> tuple[Array, Array]:
        """Return indices as the address mode of an axis has them, and which of them are inside."""
        length = self.extent[axis]
        mode = self.modes[axis]
        inside = np.ones(len(index), bool)
        if mode == _BORDER:
            inside = (index >= 0) & (index < length)
        elif mode == _REPEAT:
            index = index % length
        elif mode == _MIRROR:
            index = index % (2 * length)
            index = np.where(index < length, index, 2 * length - 1 - index)
        return np.clip(index, 0, length - 1), inside

    def fetch(self, lanes: Lanes, coordinates: list[Array], layer: Array | None) -> list[Array]:
        """Return the four channels that a texture read gives, as bits."""
        axes = [self.taps(axis, lanes.spread(each)) for axis, each in enumerate(coordinates)]
        behind: list[Array] = []
        if layer is not None:
            number = np.clip(lanes.spread(layer).astype(S64), 0, self.extent[2] - 1)
            behind = [*[np.zeros(1, S64)] * (2 - self.dimensions), number]
        is_whole = bool(self.flags & _READ_AS_INTEGER)
        dtype = self.dtype if is_whole and not self.linear else np.dtype(np.float64)
        total = [np.zeros(lanes.count, dtype) for _ in range(4)]
        for taps in product(*axes):
            indices, insides, weights = zip(*taps, strict=True)
            inside = np.logical_and.reduce(insides)
            # Integers have no filter.
            weight = 1 if is_whole else np.prod(weights, axis=0)
            for number, value in enumerate(self.texels(lanes, [*indices, *behind])):
                total[number] = total[number] + np.where(inside, value * weight, 0)
            if self.channels < 4:
                total[3] = total[3] + inside * weight
        if is_whole:
            return [each.astype(np.int64).astype(U32) for each in total]
        return [each.astype(F32).view(U32) for each in total]

    def fetch_level(
        self, lanes: Lanes, coordinates: list[Array], layer: Array | None, level: Array
    ) -> list[Array]:
        """Return what `fetch` does, of the levels of a mipmapped array."""
        level = np.clip(lanes.spread(level).astype(np.float64) + self.bias, *self.limits)
        first = np.floor(level if self.blends_levels else level + 0.5)
        later = np.floor((level - first) * 256 + 0.5) / 256
        if not self.blends_levels:
            later = np.zeros(lanes.count)
        total = [np.zeros(lanes.count, U32) for _ in range(4)]
        for number in np.unique([first, np.minimum(first + 1, self.limits[1])]):
            place = self.own_address + int(number) * _DESCRIPTOR.size
            values = Descriptor(lanes, place, b"texture").fetch(lanes, coordinates, layer)
            weight = np.where(first == number, 1 - later, np.where(first + 1 == number, later, 0))
            for whole, value in zip(total, values, strict=True):
                whole[weight == 1] = value[weight == 1]
                part = (weight > 0) & (weight < 1)
                share = value.view(F32)[part] * weight[part]
                whole[part] = (whole.view(F32)[part] + share).astype(F32).view(U32)
        return total


def _face_of(direction: list[Array]) -> tuple[Array, list[Array]]:
    """Return the face of a cube that a direction meets, and where: the table of the appendix
    "Texture Fetching".
    """
    x, y, z = (each.astype(np.float64) for each in direction)
    is_x = (abs(x) >= abs(y)) & (abs(x) >= abs(z))
    is_y = ~is_x & (abs(y) >= abs(z))
    major = np.select([is_x, is_y], [x, y], z)
    below = major < 0
    first = np.select([is_x, is_y, below], [np.where(below, z, -z), x, -x], x)
    second = np.where(is_y, np.where(below, -z, z), -y)
    size = np.where(major == 0, 1, abs(major))
    face = np.select([is_x, is_y], [0, 2], 4) + below
    return face, [((each / size + 1) / 2).astype(F32) for each in (first, second)]


class _Operand:
    """The object and the coordinates of an instruction."""

    def __init__(self, decoder: Decoder, operand: Address, coordinate: DType, magic: bytes) -> None:
        self.geometry = decoder.first(_GEOMETRIES)
        self.dimensions, self.layered = _GEOMETRIES[self.geometry]
        (coordinates,) = operand.more
        self.object = decoder.address(Address(operand.base, operand.offset))
        parts = decoder.vector(coordinates)
        self.layer: Callable[[Lanes], Array] | None = None
        if self.layered & _LAYERS:
            self.layer = decoder.source(parts.pop(0), U32)
        if self.layered & _CUBE:
            self.dimensions = 3
        self.coordinates = [decoder.source(part, coordinate) for part in parts[: self.dimensions]]
        self.decoder = decoder
        self.magic = magic

    def run(self, lanes: Lanes, action: Callable[[Lanes, Any, Descriptor], None]) -> None:
        """Call `action` for the lanes of each object."""
        objects = self.object(lanes)
        reads = sorted(self.decoder.reads)
        for address in np.unique(objects):
            part = lanes
            positions: Any = slice(None)
            if not (objects == address).all():
                positions = np.flatnonzero(objects == address)
                part = lanes.select(positions, reads)
            descriptor = Descriptor(part, int(address), self.magic)
            descriptor.check(part, self.geometry, self.magic)
            action(part, positions, descriptor)


@operation("tex")
def _tex(decoder: Decoder) -> Step:
    coordinate = DTYPES[decoder.type]
    operand = decoder.operands[1]
    if len(operand.more) != 1:
        raise decoder.unsupported("the interpreter lacks textures with a sampler of their own")
    access = _Operand(decoder, operand, coordinate, b"texture")
    level = None
    if decoder.has("level"):
        level = decoder.source(decoder.operands[2], F32)
    targets = [decoder.target(part, U32) for part in decoder.vector(0)]

    def run(lanes: Lanes) -> None:
        results = [np.zeros(lanes.count, U32) for _ in range(4)]

        def fetch(part: Lanes, positions: Any, texture: Descriptor) -> None:
            coordinates = [each(part) for each in access.coordinates]
            layer = None
            if access.layer is not None:
                layer = access.layer(part)
            if access.layered & _CUBE:
                face, coordinates = _face_of([part.spread(each) for each in coordinates])
                if not texture.flags & _NORMALIZED:
                    coordinates = [each * texture.extent[0] for each in coordinates]
                cubes = texture.extent[2] // 6
                cube = 0 if layer is None else np.clip(layer.astype(S64), 0, cubes - 1)
                layer = 6 * cube + face
            if texture.levels:
                number = level(part) if level else np.zeros(1, F32)
                values = texture.fetch_level(part, coordinates, layer, number)
            else:
                values = texture.fetch(part, coordinates, layer)
            for whole, value in zip(results, values, strict=True):
                whole[positions] = value

        access.run(lanes, fetch)
        put_all(lanes, targets, results)

    return run


class _Surface(_Operand):
    """The operands of an instruction on a surface: the object, the coordinates, the elements."""

    def __init__(self, decoder: Decoder, operand: int, elements: int) -> None:
        super().__init__(decoder, decoder.operands[operand], U32, b"surface")
        self.dtype = decoder.unsigned
        self.elements = decoder.vector(elements)
        self.mode = decoder.first(("trap", "clamp", "zero"), "trap")

    def places(self, lanes: Lanes, surface: Descriptor) -> tuple[Array, Array]:
        """Return the addresses, and which of them are inside of the surface."""
        place = np.zeros((3, lanes.count), S64)
        for axis, coordinate in enumerate(self.coordinates):
            place[axis] = lanes.spread(coordinate(lanes)).view(S32)
        if self.layer is not None:
            place[2] = lanes.spread(self.layer(lanes))
        size = self.dtype.itemsize * len(self.elements)
        width, height, depth = surface.extent
        row = width * surface.texel
        limits = np.array([[row - size], [max(height, 1) - 1], [max(depth, 1) - 1]])
        inside = ((place >= 0) & (place <= limits)).all(axis=0) & (place[0] % size == 0)
        if self.mode == "trap" and not inside.all():
            position = int(np.flatnonzero(~inside)[0])
            axes = 3 if self.layered else self.dimensions
            at = ", ".join(map(str, place[:axes, position].tolist()))
            text = f"an access of {size} bytes at ({at}), x in bytes, is outside of a surface "
            text += f"of rows of {row} bytes and {surface.extent[1:]}"
            raise lanes.error("CUDA_ERROR_LAUNCH_FAILED", f"{text}, or not aligned", position)
        if self.mode == "clamp":
            place = np.clip(place, 0, np.maximum(limits, 0))
            inside = np.ones(lanes.count, bool)
        x, y, z = place
        address = surface.address + (z * height + y) * row + x
        return np.where(inside, address, surface.address).astype(U64), inside


@operation("suld")
def _suld(decoder: Decoder) -> Step:
    access = _Surface(decoder, 1, 0)
    targets = [decoder.target(part, access.dtype) for part in access.elements]
    read = load("global", access.dtype, len(targets))

    def run(lanes: Lanes) -> None:
        results = [np.zeros(lanes.count, access.dtype) for _ in targets]

        def act(part: Lanes, positions: Any, surface: Descriptor) -> None:
            address, inside = access.places(part, surface)
            for whole, value in zip(results, read(part, address), strict=True):
                whole[positions] = np.where(inside, value, 0)

        access.run(lanes, act)
        put_all(lanes, targets, results)

    return run


@operation("sust")
def _sust(decoder: Decoder) -> Step:
    access = _Surface(decoder, 0, 1)
    sources = [decoder.source(part, access.dtype) for part in access.elements]
    write = save("global", access.dtype, len(sources))

    def act(part: Lanes, _positions: Any, surface: Descriptor) -> None:
        address, inside = access.places(part, surface)
        there = np.flatnonzero(inside)
        values = [part.spread(source(part))[there] for source in sources]
        if len(there):
            write(part.select(there, []), address[there], values)

    return lambda lanes: access.run(lanes, act)
