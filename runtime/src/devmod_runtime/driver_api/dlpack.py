"""Reading the DLPack capsules of memory on a device."""

from __future__ import annotations

from ctypes import c_int64

from devmod.backend import ConversionError, read_capsule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class DeviceTensor:
    """The tensor of a capsule. The capsule stays unused, so its own destructor frees the tensor.

    Attributes
    ----------
    address : int
        The address of the first element.
    dtype : tuple of int
        DLPack's code, bits and lanes.
    shape : tuple of int
        The length of each dimension.
    contiguous : bool
        Whether the elements are in C order without gaps.
    read_only : bool
        Whether kernels must not write to the memory.
    """

    __slots__ = ("address", "contiguous", "dtype", "read_only", "shape")

    def __init__(self, capsule: object) -> None:
        tensor, self.read_only = read_capsule(capsule)
        numbers = c_int64 * tensor.ndim
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.dtype = (tensor.code, tensor.bits, tensor.lanes)
        self.shape = tuple(numbers.from_address(tensor.shape)) if tensor.ndim else ()
        self.contiguous = not tensor.strides or is_contiguous(self.shape, tuple(numbers.from_address(tensor.strides)), 1)


def export(value: Any, stream: int) -> object:
    """Return the DLPack capsule of an array, ordered before the later work of a stream (-1: not ordered).

    Raises
    ------
    ConversionError
        Its library does not export it; the text has the library's reason.
    """
    try:
        try:
            return value.__dlpack__(stream=stream, max_version=(1, 0))
        except TypeError:  # the library is older than DLPack 1
            return value.__dlpack__(stream=stream)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ConversionError(f"is not exported by its library: {error}") from None


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], step: int) -> bool:
    """Return whether elements of `step` units are in C order without gaps."""
    if 0 in shape:
        return True
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != step:
            return False
        step *= length
    return True
