"""Handing memory of the host on by DLPack, without NumPy.

A consumer that speaks DLPack 1 gets a versioned capsule with the read-only flag. An older one knows no such flag, so it gets
a copy of its own.
"""

from __future__ import annotations

import ctypes
from ctypes import pythonapi

from devmod._memory.buffer import Pinned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod._dtypes import DType

CPU = (1, 0)
_READ_ONLY, _IS_COPIED = 1, 2


class _Tensor(ctypes.Structure):
    """``DLTensor``: data, device, ndim, dtype, shape, strides, byte_offset."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """``DLManagedTensor``, before version 1."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


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


#: What is handed out and not given back yet: the structure's address to everything that it points at.
_handed_out: dict[int, object] = {}

_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", pythonapi))
# The capsule comes as a bare pointer: it is being destroyed, and a reference must not be taken to it.
_capsule_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", pythonapi))


def _give_back(address: int, _handed: dict[int, object] = _handed_out) -> None:
    _handed.pop(address, None)


def _drop_unused(capsule: int, _valid: Any = _capsule_is_valid, _pointer: Any = _capsule_pointer, _back: Any = _give_back) -> None:
    """A capsule that nobody took (its name is unchanged) goes: so does what it held."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if _valid(capsule, name):
            _back(_pointer(capsule, name))


def _pointer_to(callback: Any) -> int:
    # A consumer may hold the pointer longer than this module lives: at the end of the interpreter it must still be good.
    ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", pythonapi))(callback)
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


# A consumer may call the deleter without the interpreter's lock: CFUNCTYPE takes it.
_give_back_pointer = _pointer_to(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_give_back))
_drop_unused_pointer = _pointer_to(ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop_unused))


def host_capsule(
    data: memoryview, shape: Sequence[int], dtype: DType, max_version: tuple[int, int] | None, dl_device: object, copy: bool | None
) -> object:
    """A DLPack capsule of C-contiguous memory of the host. The last three parameters are those of ``__dlpack__``.

    Raises
    ------
    BufferError
        The consumer wants another device, or no copy where its version of DLPack needs one.
    """
    if dl_device is not None and tuple(dl_device) != CPU:  # type: ignore[arg-type]
        raise BufferError(f"this array is in the memory of the host; it cannot be handed to the DLPack device {dl_device!r}")
    versioned = max_version is not None and max_version[0] >= 1
    if not versioned and copy is False and data.readonly:
        raise BufferError("this array is read-only, which DLPack before version 1 cannot say: ask with max_version=(1, 0), or allow a copy")
    copied = bool(copy) or (not versioned and data.readonly)
    held: object = bytearray(data) if copied else data
    pinned = Pinned(held)
    steps, step = [], 1
    for length in reversed(shape):
        steps.append(step)
        step *= max(length, 1)
    sizes = (ctypes.c_int64 * (2 * len(shape)))(*shape, *reversed(steps))
    at = ctypes.addressof(sizes)
    tensor = _Tensor(pinned.address, *CPU, len(shape), *dtype, at, at + 8 * len(shape), 0)
    managed: _Versioned | _Managed
    if versioned:
        flags = _IS_COPIED if copied else _READ_ONLY if data.readonly else 0
        managed = _Versioned(1, 0, None, _give_back_pointer, flags, tensor)
        name = b"dltensor_versioned"
    else:
        managed = _Managed(tensor, None, _give_back_pointer)
        name = b"dltensor"
    address = ctypes.addressof(managed)
    _handed_out[address] = (managed, sizes, pinned, name)
    return _capsule_new(address, name, _drop_unused_pointer)
