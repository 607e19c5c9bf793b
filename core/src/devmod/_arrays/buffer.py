"""The buffer protocol for arrays: any element format, any shape, without NumPy.

`memoryview.cast` supports neither float16 nor an empty array of two dimensions. Before Python 3.12
a class written in Python cannot export a buffer. So this module creates types with the C slot
through ctypes (``PyType_FromSpec``, part of the stable interface).
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import pythonapi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_WRITABLE = 0x0001  # PyBUF_WRITABLE


def fields(text: str) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a structure: ``"shape:c_void_p ndim:c_int"``."""
    results = []
    for each in text.split():
        name, _, type_ = each.partition(":")
        results.append((name, getattr(ctypes, type_)))
    return tuple(results)


class _PyBuffer(ctypes.Structure):
    """``Py_buffer`` of CPython's stable interface, since 3.11."""

    _fields_ = fields(
        "buf:c_void_p obj:c_void_p len:c_ssize_t itemsize:c_ssize_t readonly:c_int ndim:c_int format:c_char_p shape:c_void_p "
        "strides:c_void_p suboffsets:c_void_p internal:c_void_p"
    )


_GETBUFFER = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int
)
_get_buffer = _GETBUFFER(("PyObject_GetBuffer", pythonapi))
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_PyBuffer))(
    ("PyBuffer_Release", pythonapi)
)
_inc_ref = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", pythonapi))


class Pinned:
    """A locked buffer: `address` and `nbytes` are valid as long as this object lives.

    Parameters
    ----------
    data
        A contiguous buffer. It may be read-only, unlike one for ctypes' ``from_buffer``.

    Raises
    ------
    BufferError, TypeError
        `data` is not a contiguous buffer.
    """

    __slots__ = ("_view", "address", "nbytes")

    def __init__(self, data: object) -> None:
        view = _PyBuffer()
        _get_buffer(data, ctypes.byref(view), 0)
        self._view = view
        self.address: int = view.buf or 0
        self.nbytes: int = view.len

    # The defaults keep the functions reachable at interpreter shutdown, when module globals may be
    # cleared.
    def __del__(self, _release: Any = _release_buffer, _byref: Any = ctypes.byref) -> None:
        if hasattr(self, "_view"):
            _release(_byref(self._view))


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("pfunc", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


#: The objects to which the C types point. They must outlive the types.
_type_parts: list[object] = []


def _exporting_type(name: bytes, getbuffer: Any) -> type:
    """Return a base class with a buffer. ``getbuffer(self, view, flags)`` fills in the view and
    returns 0, or returns -1 for an error.
    """
    slot = _GETBUFFER(getbuffer)
    # 1: Py_bf_getbuffer
    slots = (_Slot * 2)(_Slot(1, ctypes.cast(slot, ctypes.c_void_p)), _Slot(0, None))
    default_and_basetype = (1 << 18) | (1 << 10)  # Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE
    spec = _Spec(name, 0, 0, default_and_basetype, slots)
    from_spec = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Spec))(
        ("PyType_FromSpec", pythonapi)
    )
    created: type = from_spec(ctypes.byref(spec))
    _type_parts.extend((slot, slots, spec))
    return created


def _fill(self: Any, view: Any, flags: int) -> int:
    if flags & _WRITABLE:
        return -1
    out = view.contents
    out.buf = self.pinned.address
    out.len = self.pinned.nbytes
    out.itemsize = self.itemsize
    out.readonly = 1
    out.ndim = len(self.shape)
    out.format = self.format
    out.shape = ctypes.addressof(self.shape)
    out.strides = ctypes.addressof(self.strides)
    out.suboffsets = out.internal = None
    _inc_ref(self)
    out.obj = id(self)
    return 0


class _Exporter(_exporting_type(b"devmod._arrays.buffer._ExporterBase", _fill)):  # type: ignore[misc]
    """Bytes with a format and a shape. Only `typed_view` creates one, for a memoryview. A HostArray
    has compared the sizes.
    """

    __slots__ = ("format", "itemsize", "pinned", "shape", "strides")

    def __init__(self, data: object, fmt: str, itemsize: int, shape: Sequence[int]) -> None:
        self.pinned = Pinned(data)
        self.format = fmt.encode()
        self.itemsize = itemsize
        sizes = ctypes.c_ssize_t * len(shape)
        self.shape = sizes(*shape)
        self.strides = sizes(*strides_of(shape, itemsize))


def strides_of(shape: Sequence[int], step: int) -> list[int]:
    """Return the strides of an array in C order, whose elements are `step` units."""
    steps = []
    for length in reversed(shape):
        steps.append(step)
        step *= max(length, 1)
    return steps[::-1]


def typed_view(data: object, fmt: str, itemsize: int, shape: Sequence[int]) -> memoryview:
    """Return a read-only, C-contiguous memoryview of `data` with a format of the struct module and
    a shape. It keeps `data` alive.
    """
    return memoryview(_Exporter(data, fmt, itemsize, shape))


def _forward(self: Any, view: Any, flags: int) -> int:
    # An exception cannot leave a ctypes callback. Consumers that request a writable buffer first
    # (file.readinto, struct.pack_into, numpy.frombuffer) expect -1 without an exception.
    if flags & _WRITABLE:
        return -1
    try:
        return int(_get_buffer(self.__buffer__(flags), view, flags))
    except BufferError:
        return -1


if TYPE_CHECKING or sys.version_info >= (3, 12):

    class BufferBase:
        """Base class of classes that export the memoryview returned by ``__buffer__(flags)`` (PEP
        688).
        """

        __slots__ = ()

else:
    BufferBase = _exporting_type(b"devmod._arrays.buffer.BufferBase", _forward)
