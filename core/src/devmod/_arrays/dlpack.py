"""DLPack export, without NumPy.

A consumer of DLPack 1 gets a versioned capsule with the read-only flag. Older versions have no such
flag, so an older consumer gets a writable copy.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import pythonapi

from devmod._arrays.buffer import Pinned, fields, strides_of
from devmod._values.dtypes import DType, array_bytes, dtype_name
from devmod.errors import count_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


CPU = (1, 0)
READ_ONLY = 1
_IS_COPIED = 2


class Tensor(ctypes.Structure):
    """``DLTensor``: data, device, ndim, dtype, shape, strides, byte_offset."""

    _fields_ = fields(
        "data:c_void_p device_type:c_int32 device_id:c_int32 ndim:c_int32 code:c_uint8 bits:c_uint8 lanes:c_uint16 shape:c_void_p "
        "strides:c_void_p byte_offset:c_uint64"
    )


class Managed(ctypes.Structure):
    """``DLManagedTensor`` of versions before 1."""

    _fields_ = (("tensor", Tensor), *fields("context:c_void_p deleter:c_void_p"))


class Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = (
        *fields("major:c_uint32 minor:c_uint32 context:c_void_p deleter:c_void_p flags:c_uint64"),
        ("tensor", Tensor),
    )


#: For the address of each exported structure that its consumer has not freed: the objects to which
#: it points.
_exported: dict[int, object] = {}
#: The capsules that may not have a consumer yet, with the addresses and names of their structures.
_unclaimed: list[tuple[object, int, bytes]] = []

_capsule_new = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", pythonapi))
_capsule_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", pythonapi)
)


def _references(entry: tuple[object, ...]) -> int:
    return sys.getrefcount(entry[0])


#: The result of `_references` for an object with no other reference than its tuple.
_OWN_REFERENCES = _references((object(),))


# The default keeps the dict reachable at interpreter shutdown.
def _release(address: int, _exported: dict[int, object] = _exported) -> None:
    _exported.pop(address, None)


def _drop_unused() -> None:
    """Free the memory of capsules that have no consumer and no reference.

    A destructor of the capsule could free the memory at once. But a consumer that rejects a capsule
    destroys it while its exception is set, and a destructor in Python would clear that exception.
    """
    for entry in _unclaimed[:]:
        is_consumed = not _capsule_is_valid(entry[0], entry[2])  # a consumer renames the capsule
        if not is_consumed and _references(entry) > _OWN_REFERENCES:
            continue
        try:
            _unclaimed.remove(entry)
        except ValueError:
            continue  # another thread removed it
        if not is_consumed:
            _release(entry[1])


# A consumer may call the deleter without the interpreter's lock: CFUNCTYPE acquires it.
_release_callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_release)
# It may call the pointer at interpreter shutdown, after this module is gone: the callback must
# never be freed.
ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", pythonapi))(_release_callback)
_release_pointer = ctypes.cast(_release_callback, ctypes.c_void_p).value or 0


def host_capsule(
    data: memoryview,
    shape: Sequence[int],
    dtype: DType,
    max_version: Any = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> object:
    """Return a DLPack capsule of C-contiguous host memory. The last three parameters are those of
    ``__dlpack__``.

    Raises
    ------
    BufferError
        The consumer requests another device, or forbids a copy that its version of DLPack needs.
    """
    if dl_device is not None and tuple(dl_device) != CPU:
        raise BufferError(
            f"this array is in the memory of the host; it cannot be exported to the DLPack device {dl_device!r}"
        )
    size = array_bytes(dtype, shape)
    if size != data.nbytes:
        raise BufferError(
            f"an array of shape {tuple(shape)} and type {dtype_name(dtype)} has {count_text(size, 'byte')}, not {data.nbytes}"
        )
    check_elements(dtype)
    versioned = max_version is not None and max_version[0] >= 1
    if not versioned and copy is False and data.readonly:
        raise BufferError(
            "this array is read-only, which DLPack before version 1 cannot express: pass max_version=(1, 0), or allow a copy"
        )
    is_copy = bool(copy) or (not versioned and data.readonly)
    flags = 0
    if is_copy:
        pinned = Pinned(bytearray(data))
        flags = _IS_COPIED
    else:
        pinned = Pinned(data)
        if data.readonly:
            flags = READ_ONLY
    return capsule(pinned, CPU, pinned.address, 0, shape, dtype, flags, versioned)


def check_elements(dtype: DType) -> None:
    """Raise BufferError if DLPack consumers cannot read packed elements of a type."""
    if dtype[1] * dtype[2] % 8 and dtype != (1, 1, 1):
        # Until version 1.1 DLPack rounded the size of an element up to bytes, and some consumers
        # still do.
        raise BufferError(
            f"elements of {dtype_name(dtype)} end within a byte, which not all DLPack consumers can read; unpack them with array.numpy()"
        )


def capsule(
    owner: object,
    device: tuple[int, int],
    address: int,
    byte_offset: int,
    shape: Sequence[int],
    dtype: DType,
    flags: int,
    versioned: bool,
) -> object:
    """Return a capsule that keeps `owner` alive until its consumer frees it."""
    sizes = (ctypes.c_int64 * (2 * len(shape)))(*shape, *strides_of(shape, 1))
    shape_address = ctypes.addressof(sizes)
    tensor = Tensor(
        address,
        *device,
        len(shape),
        *dtype,
        shape_address,
        shape_address + 8 * len(shape),
        byte_offset,
    )
    managed: Versioned | Managed
    if versioned:
        managed = Versioned(1, 0, None, _release_pointer, flags, tensor)
        name = b"dltensor_versioned"
    else:
        managed = Managed(tensor, None, _release_pointer)
        name = b"dltensor"
    address = ctypes.addressof(managed)
    _drop_unused()
    _exported[address] = (managed, sizes, owner)
    created = _capsule_new(address, name, None)
    _unclaimed.append((created, address, name))
    return created
