"""Calls of the stand-in CUDA runtime by ctypes, for its own tests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

#: cudaMemcpyKind.
HOST_TO_HOST, TO_DEVICE, TO_HOST, ON_DEVICE, DEFAULT = range(5)
#: cudaError_t.
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
INVALID_PITCH = 12
INVALID_CHANNEL_DESCRIPTOR = 20
INVALID_DIRECTION = 21
INVALID_DEVICE = 101
INVALID_HANDLE = 400
NOT_READY = 600
CAPTURE_UNSUPPORTED = 900


class Extent(ctypes.Structure):
    """cudaExtent, and cudaPos."""

    _fields_ = (
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
    )


class PitchedPointer(ctypes.Structure):
    """cudaPitchedPtr."""

    _fields_ = (
        ("pointer", ctypes.c_void_p),
        ("pitch", ctypes.c_size_t),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class Copy3D(ctypes.Structure):
    """cudaMemcpy3DParms."""

    _fields_ = (
        ("source_array", ctypes.c_void_p),
        ("source_at", Extent),
        ("source", PitchedPointer),
        ("target_array", ctypes.c_void_p),
        ("target_at", Extent),
        ("target", PitchedPointer),
        ("extent", Extent),
        ("kind", ctypes.c_int),
    )


class ChannelFormat(ctypes.Structure):
    """cudaChannelFormatDesc."""

    _fields_ = (
        ("x", ctypes.c_int),
        ("y", ctypes.c_int),
        ("z", ctypes.c_int),
        ("w", ctypes.c_int),
        ("kind", ctypes.c_int),
    )


class PointerAttributes(ctypes.Structure):
    """cudaPointerAttributes, which is longer in CUDA 13."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("device_pointer", ctypes.c_void_p),
        ("host_pointer", ctypes.c_void_p),
        ("reserved", ctypes.c_long * 8),
    )


class Location(ctypes.Structure):
    """cudaMemLocation."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class Runtime:
    """The functions of a runtime: `name(…)` returns the error. Integers are passed with 64 bits."""

    def __init__(self, library: ctypes.CDLL, major: int) -> None:
        self.library = library
        self.major = major

    def __getattr__(self, name: str) -> Callable[..., int]:
        function = self.library[name]

        def call(*arguments: Any) -> int:
            values = []
            for each in arguments:
                if isinstance(each, int):
                    each = ctypes.c_int64(each)
                values.append(each)
            return int(function(*values))

        return call

    def check(self, name: str, *arguments: Any) -> None:
        """Call a function that succeeds."""
        assert (getattr(self, name)(*arguments), name) == (0, name)

    def make(self, name: str, *arguments: Any) -> int:
        """Return the pointer or the handle that a function sets with its first parameter."""
        result = ctypes.c_void_p()
        self.check(name, ctypes.byref(result), *arguments)
        return result.value or 0

    def upload(self, data: bytes) -> int:
        """Return device memory with some bytes."""
        pointer = self.make("cudaMalloc", len(data))
        self.check("cudaMemcpy", pointer, data, len(data), TO_DEVICE)
        self.check("cudaStreamSynchronize", 0)
        return pointer

    def read(self, pointer: int, size: int, form: str = "cudaMemcpy") -> bytes:
        """Return bytes of device memory, by a form of cudaMemcpy."""
        target = ctypes.create_string_buffer(size)
        self.check(form, target, pointer, size, TO_HOST)
        return target.raw
