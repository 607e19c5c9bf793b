"""DLPack import of host memory, through NumPy.

NumPy takes the capsule and frees it. It has no bfloat16 and no fp8: their code is changed to unsigned integers of the same size before
NumPy reads it, and `Import.dtype` has their name.
"""

from __future__ import annotations

import ctypes
from ctypes import pythonapi

from devmod._device.dlpack import READ_ONLY, Managed, Tensor, Versioned
from devmod._values.conversion import ConversionError
from devmod._values.dtypes import dtype_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np
else:
    from devmod._util.numpy import np

#: DLPack's codes of the types that NumPy reads: int, uint, float, complex, bool.
_NUMPY_CODES = (0, 1, 2, 5, 6)
_UINT = 1

_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", pythonapi))


def is_capsule(value: object) -> bool:
    """Return whether a value is a capsule of DLPack, used or not."""
    return type(value).__name__ == "PyCapsule" and b"dltensor" in (_name(value) or b"")


class _Writable:
    """The memory of a read-only NumPy array, writable."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array  # a reference
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


class Import:
    """An exporter of DLPack for `numpy.from_dlpack`.

    Parameters
    ----------
    value
        An exporter, or a capsule.

    Attributes
    ----------
    dtype : str
        The element type if NumPy lacks it; "" otherwise.
    """

    def __init__(self, value: Any) -> None:
        self._value = value
        self.dtype = ""

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array over the memory.

        NumPy takes capsules of DLPack before version 1, which have no flag for it, as read-only. PyTorch's tensors can be written.
        """
        array = np.from_dlpack(self)  # type: ignore[arg-type]  # the parameters and the capsule are the exporter's
        if array.flags.writeable or type(self._value).__module__ != "torch":
            return array
        return np.asarray(_Writable(array))

    def __dlpack_device__(self) -> tuple[int, int]:
        if is_capsule(self._value):
            tensor, _ = read_capsule(self._value)
            return tensor.device_type, tensor.device_id
        device_type, number = self._value.__dlpack_device__()
        return int(device_type), int(number)

    def __dlpack__(self, **options: Any) -> object:
        capsule = self._value if is_capsule(self._value) else self._value.__dlpack__(**options)
        tensor, _ = read_capsule(capsule)
        if tensor.code not in _NUMPY_CODES and tensor.lanes == 1 and tensor.bits in (8, 16, 32, 64):
            self.dtype = dtype_name((tensor.code, tensor.bits, 1))
            tensor.code = _UINT
        return capsule


def read_capsule(capsule: object) -> tuple[Tensor, bool]:
    """Return the structure of a capsule, in place, and whether the capsule marks the memory as read-only.

    Raises
    ------
    ConversionError
        The capsule was used before, is not one of DLPack, or has another major version.
    """
    name = _name(capsule)
    if name in (b"used_dltensor", b"used_dltensor_versioned"):
        raise ConversionError("has a DLPack capsule that was used before; a capsule can be used once: export the array again")
    if name not in (b"dltensor", b"dltensor_versioned"):
        capsule_name = repr((name or b"").decode(errors="replace"))
        raise ConversionError(f"exports a capsule named {capsule_name}, expected 'dltensor' or 'dltensor_versioned'")
    if name == b"dltensor":
        return Managed.from_address(_pointer(capsule, name)).tensor, False
    versioned = Versioned.from_address(_pointer(capsule, name))
    if versioned.major != 1:
        raise ConversionError(f"exports DLPack {versioned.major}.{versioned.minor}; this devmod reads version 1 and older")
    return versioned.tensor, bool(versioned.flags & READ_ONLY)
