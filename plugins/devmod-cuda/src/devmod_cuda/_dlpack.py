"""Reading the DLPack capsules of memory on a device."""

from __future__ import annotations

import ctypes
from ctypes import pythonapi

from devmod.backend import ConversionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: DLPack's kDLCUDA and kDLCUDAManaged.
CUDA_TYPES = (2, 13)
#: DLPACK_FLAG_BITMASK_READ_ONLY.
_READ_ONLY = 1

_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", pythonapi))


class _Tensor(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


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
        name = _name(capsule)
        if name not in (b"dltensor", b"dltensor_versioned"):
            text = repr((name or b"").decode(errors="replace"))
            raise ConversionError(f"exports a DLPack capsule named {text}, expected 'dltensor' or 'dltensor_versioned'")
        versioned = _Versioned.from_address(_pointer(capsule, name)) if name == b"dltensor_versioned" else None
        if versioned is not None and versioned.major != 1:
            raise ConversionError(f"exports DLPack {versioned.major}.{versioned.minor}, which this devmod-cuda does not read")
        tensor: Any = versioned.tensor if versioned is not None else _Tensor.from_address(_pointer(capsule, name))
        self.read_only = versioned is not None and bool(versioned.flags & _READ_ONLY)
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.dtype = (tensor.code, tensor.bits, tensor.lanes)
        self.shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
        self.contiguous = not tensor.strides or is_contiguous(self.shape, tuple(tensor.strides[: tensor.ndim]), 1)


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
