"""The functions of NumPy's for sin and its kin, which need no lock of Python's.

Their last bits are NumPy's own, and depend on the processor. So compiled code calls the loops that
the interpreter's calls of NumPy reach, by the structure of `numpy/ufuncobject.h`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, ClassVar

import numpy as np

from devmod_simulators.ptx.compiled.context import LOOPS


class _Function(ctypes.Structure):
    """PyUFuncObject, behind the beginning that all objects have."""

    _fields_: ClassVar[list[Any]] = [
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
    ]


_LOOP = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_ssize_t),
    ctypes.POINTER(ctypes.c_ssize_t),
    ctypes.c_void_p,
)


@cache
def loops() -> list[tuple[int, int]] | None:
    """Return the address of each function of `LOOPS` for float32, and what it gets last; None if
    NumPy has another structure.
    """
    found = []
    for name in LOOPS:
        function: Any = getattr(np, name)
        made = _Function.from_address(id(function) + object.__basicsize__)
        types = function.types
        numbers = (made.nin, made.nout, made.nargs, made.ntypes)
        if numbers != (1, 1, 2, len(types)) or made.name != name.encode():
            return None
        number = types.index("f->f")
        loop = made.functions[number], made.data[number] or 0
        if not _computes(loop, function):
            return None
        found.append(loop)
    return found


def _computes(loop: tuple[int, int], function: Any) -> bool:
    """Return whether a loop computes what a function does."""
    values = np.linspace(0.25, 20, 8, dtype=np.float32)
    out = np.zeros_like(values)
    arrays = (ctypes.c_void_p * 2)(values.ctypes.data, out.ctypes.data)
    count = ctypes.c_ssize_t(len(values))
    strides = (ctypes.c_ssize_t * 2)(values.itemsize, out.itemsize)
    _LOOP(loop[0])(arrays, ctypes.byref(count), strides, loop[1])
    return out.tobytes() == function(values).tobytes()
