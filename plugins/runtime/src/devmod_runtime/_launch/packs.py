"""Buffers that a kernel takes as several values: the address of the array, and numbers of its shape
(`devmod.Param.pack`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from devmod import Param
from devmod.backend import ConversionError, array_bytes, parse_dtype
from devmod_runtime._launch.scalars import packer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_runtime._device.host import Shape
    from devmod_runtime._launch.scalars import Packer

#: The number of shapes whose values are cached.
_MAX_CACHED = 256


class Pack:
    """The values of the kernel for one buffer.

    Parameters
    ----------
    param
        The parameter.
    unit
        The bytes of an element; 1 if the size is unknown.
    """

    def __init__(self, param: Param, type_: str, unit: int) -> None:
        #: What packs each value by its name; None for the address.
        self._fields: dict[str, Packer | None] = {}
        for value in param.pack:
            name, number = value.split(":")
            self._fields[name] = packer(number)
        self._fields["ptr"] = None
        names = [*self._fields]
        #: The place of the address among the values.
        self.pointer = names.index("ptr")
        shapes = sum(name.startswith("shape") for name in names)
        strides = sum(name.startswith("stride") for name in names)
        self._dimensions = shapes or strides
        self._type = type_
        self._unit = unit
        self._cache: dict[tuple[str, Shape], list[bytes | None]] = {}

    def fields(self, dtype: str, shape: Shape) -> list[bytes | None]:
        """Return the values for an array in C order: the bytes of its numbers, and None for its
        address.

        Raises
        ------
        ConversionError
            The array has another number of dimensions, or a number does not fit its type.
        """
        try:
            return self._cache[dtype, shape]
        except KeyError:
            pass
        axes = self._axes(dtype, shape)
        if self._dimensions and len(axes) != self._dimensions:
            dimensions = f"{self._dimensions} dimensions"
            if self._dimensions == 1:
                dimensions = "1 dimension"
            elements = ""
            if len(axes) != len(shape):
                elements = f" of {self._type}"
            raise ConversionError(
                f"is an array of shape {shape}, and the kernel takes {dimensions}{elements}; pass array.reshape(…)"
            )
        numbers = {"count": prod(axes)}
        for axis, length in enumerate(axes):
            numbers |= {f"shape{axis}": length, f"stride{axis}": prod(axes[axis + 1 :])}
        result: list[bytes | None] = []
        for name, pack in self._fields.items():
            try:
                result.append(None if pack is None else pack(numbers[name]))
            except ConversionError as error:
                raise ConversionError(f"is an array of shape {shape}: its {name} {error}") from None
        if len(self._cache) < _MAX_CACHED:
            self._cache[dtype, shape] = result
        return result

    def _axes(self, dtype: str, shape: Shape) -> Shape:
        """Return the lengths of an array in elements of the kernel: an array of numbers may have
        the lanes of a vector as its last axis.
        """
        size = array_bytes(parse_dtype(dtype))
        if self._unit in (1, size):
            return shape
        if shape and shape[-1] * size == self._unit:
            return shape[:-1]
        return (prod(shape) * size // self._unit,)


def expand(packs: Sequence[tuple[int, Pack]], values: list[Any]) -> None:
    """Replace each array in the values of a launch, its memory and its `Pack.fields`, by the values
    of the kernel.
    """
    for number, pack in packs:
        memory, fields = values[number]
        values[number : number + 1] = fields
        values[number + pack.pointer] = memory
