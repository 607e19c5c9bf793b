"""Calls of the stand-in CUDA runtime by ctypes, for its own tests."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

#: cudaMemcpyKind.
HOST_TO_HOST, TO_DEVICE, TO_HOST, ON_DEVICE, DEFAULT = range(5)
#: cudaError_t.
INVALID_VALUE = 1
INVALID_PITCH = 12
INVALID_CHANNEL_DESCRIPTOR = 20
INVALID_DIRECTION = 21
NOT_READY = 600
CAPTURE_UNSUPPORTED = 900


class Extent(ctypes.Structure):
    """cudaExtent: width, height and depth."""

    _fields_ = (("sizes", ctypes.c_size_t * 3),)


class PitchedPointer(ctypes.Structure):
    """cudaPitchedPtr: address, pitch, width and height."""

    _fields_ = (("words", ctypes.c_size_t * 4),)


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

    def get(self, name: str, *arguments: Any, form: str = "i") -> tuple[Any, ...]:
        """Return what a function writes where the argument is `...`."""
        place = ctypes.create_string_buffer(256)
        values = []
        for each in arguments:
            values.append(place if each is ... else each)
        self.check(name, *values)
        return struct.unpack_from(form, place)

    def make(self, name: str, *arguments: Any) -> int:
        """Return the pointer or the handle that a function sets with its first parameter."""
        (result,) = self.get(name, ..., *arguments, form="Q")
        return int(result)

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
