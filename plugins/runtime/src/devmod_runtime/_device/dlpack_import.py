"""DLPack import of host memory as a NumPy array.

NumPy's own `from_dlpack` is not used: before 2.2 all its arrays are read-only, and it lacks
bfloat16 and fp8. Such elements become unsigned integers of the same size.
"""

from __future__ import annotations

import ctypes
from ctypes import pythonapi
from functools import partial

from devmod._arrays.dlpack import READ_ONLY, Managed, Tensor, Versioned
from devmod.backend import STRUCT_FORMATS, ConversionError, dtype_name, numpy_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np
else:
    from devmod.backend import np

#: The names of capsules with a consumer. Python keeps the pointers.
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}

_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", pythonapi)
)
#: Called with the interpreter's lock, as NumPy does. A deleter that acquires it may do so again.
_Deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


def is_capsule(value: object) -> bool:
    """Return whether a value is a capsule of DLPack, used or not."""
    return type(value).__name__ == "PyCapsule" and b"dltensor" in (_name(value) or b"")


def device_of(value: Any) -> tuple[int, int]:
    """Return the device of an exporter or a capsule: DLPack's device type, and the number."""
    if is_capsule(value):
        tensor, _ = read_capsule(value)
        return tensor.device_type, tensor.device_id
    device_type, number = value.__dlpack_device__()
    return int(device_type), int(number)


def import_array(value: Any) -> tuple[np.ndarray[Any, Any], str]:
    """Return a NumPy array over the host memory of an exporter or a capsule, and the element type
    if NumPy lacks it, else "".

    Raises
    ------
    ConversionError
        The capsule was used before, or cannot be read.
    Exception
        The exporter's own.
    """
    if is_capsule(value):
        capsule = value
    else:
        try:
            capsule = value.__dlpack__(max_version=(1, 0))
        except TypeError:  # the exporter is older than DLPack 1
            capsule = value.__dlpack__()
    memory = _Memory(capsule, type(value).__module__ == "torch")
    return np.asarray(memory), memory.dtype


class _Memory:
    """The memory of a capsule, as NumPy's array interface.

    It is freed with the last array over it.
    """

    def __init__(self, capsule: object, is_torch: bool) -> None:
        structure = _read(capsule)
        tensor = structure.tensor
        read_only = _is_read_only(structure)
        if isinstance(structure, Managed):
            # These capsules have no flag. JAX and Arrow export immutable arrays as such. PyTorch
            # has none, and NumPy does not export them.
            read_only = not is_torch and structure.deleter != _numpy_deleter()
        dtype, self.dtype = _dtype_of(tensor)
        lengths = ctypes.c_int64 * tensor.ndim
        shape: tuple[int, ...] = ()
        if tensor.ndim:
            shape = tuple(lengths.from_address(tensor.shape))
        strides = None
        if tensor.strides:
            strides = tuple(dtype.itemsize * each for each in lengths.from_address(tensor.strides))
        self.__array_interface__ = {
            "version": 3,
            "typestr": dtype.str,
            "shape": shape,
            "strides": strides,
            "data": ((tensor.data or 0) + tensor.byte_offset, read_only),
        }
        self._free = None
        if structure.deleter:
            self._free = partial(_Deleter(structure.deleter), ctypes.addressof(structure))
        _rename(capsule, _USED[_name(capsule)])

    def __del__(self) -> None:
        free = getattr(self, "_free", None)  # an unreadable capsule is freed by its own destructor
        if free is not None:
            free()


def _dtype_of(tensor: Tensor) -> tuple[np.dtype[Any], str]:
    """Return NumPy's type of the elements, and their name if NumPy lacks it, else "".

    Raises
    ------
    ConversionError
        No integer has the size of the elements.
    """
    name = dtype_name((tensor.code, tensor.bits, tensor.lanes))
    if name in STRUCT_FORMATS and tensor.bits > 1:
        return numpy_dtype(name), ""
    if tensor.lanes != 1 or tensor.bits not in (8, 16, 32, 64):
        raise ConversionError(f"has elements of {name}, which no host array can have")
    return np.dtype(f"u{tensor.bits // 8}"), name


def _numpy_deleter() -> int | None:
    """Return the deleter of NumPy's capsules of DLPack before version 1."""
    capsule = np.empty(0).__dlpack__()
    deleter: int | None = Managed.from_address(_pointer(capsule, b"dltensor")).deleter
    return deleter


def read_capsule(capsule: object) -> tuple[Tensor, bool]:
    """Return the tensor of a capsule, in place, and whether the capsule marks the memory as
    read-only.

    Raises
    ------
    ConversionError
        The capsule was used before, is not one of DLPack, or has another major version.
    """
    structure = _read(capsule)
    return structure.tensor, _is_read_only(structure)


def _is_read_only(structure: Managed | Versioned) -> bool:
    return bool(getattr(structure, "flags", 0) & READ_ONLY)


def _read(capsule: object) -> Managed | Versioned:
    """Return the structure of a capsule, in place. Raise the errors of `read_capsule`."""
    if type(capsule).__name__ != "PyCapsule":
        raise ConversionError(f"exports {type(capsule).__name__} by DLPack, expected a capsule")
    name = _name(capsule)
    if name in (b"used_dltensor", b"used_dltensor_versioned"):
        raise ConversionError(
            "has a DLPack capsule that was used before; a capsule can be used once: export the array again"
        )
    if name not in (b"dltensor", b"dltensor_versioned"):
        capsule_name = repr((name or b"").decode(errors="replace"))
        raise ConversionError(
            f"exports a capsule named {capsule_name}, expected 'dltensor' or 'dltensor_versioned'"
        )
    if name == b"dltensor":
        return Managed.from_address(_pointer(capsule, name))
    versioned = Versioned.from_address(_pointer(capsule, name))
    if versioned.major != 1:
        raise ConversionError(
            f"exports DLPack {versioned.major}.{versioned.minor}; this devmod reads version 1 and older"
        )
    return versioned
