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
        return self[name]

    def __getitem__(self, name: str) -> Callable[..., int]:
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
        assert (self[name](*arguments), name) == (0, name)

    def get(self, name: str, *arguments: Any, form: str = "i") -> tuple[Any, ...]:
        """Return what a function writes where the argument is `...`."""
        place = ctypes.create_string_buffer(2048)
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


class Dim3(ctypes.Structure):
    """dim3."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


#: What follows from `__managed__ int counter = 5;`, a constant, a variable and two kernels.
PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.global .attribute(.managed) .align 4 .u32 counter = 5;
.const .align 4 .u32 factor = 3;
.global .align 4 .b8 table[16];

.visible .entry count(.param .u32 by)
{
    .reg .b32 %r<8>;
    .reg .b64 %d<3>;
    ld.param.u32 %r1, [by];
    ld.const.u32 %r2, [factor];
    mul.lo.u32 %r3, %r1, %r2;
    atom.global.add.u32 %r4, [counter], %r3;
    mov.u32 %r5, %ntid.x;
    st.global.u32 [table], %r5;
    mov.u32 %r6, %dynamic_smem_size;
    st.global.u32 [table+4], %r6;
    mov.u32 %r7, %nctaid.x;
    st.global.u32 [table+8], %r7;
    ret;
}

.visible .entry fault()
{
    .reg .b64 %d<2>;
    mov.u64 %d1, 16;
    st.global.u32 [%d1], 1;
    ret;
}
"""


class Program(Runtime):
    """The part of a program that nvcc writes: it registers an image, its kernels and variables.

    Attributes
    ----------
    counter
        The host's pointer of the managed variable.
    """

    def __init__(self, library: ctypes.CDLL, major: int, image: bytes = PTX) -> None:
        super().__init__(library, major)
        library.cudaGetErrorName.restype = ctypes.c_char_p
        begin = library["__cudaRegisterFatBinary"]
        begin.restype = ctypes.c_void_p
        self.counter = ctypes.c_void_p()
        self.image = ctypes.create_string_buffer(image)
        # The wrapper's magic number and version, the image, and nothing more.
        self.wrapper = (ctypes.c_uint64 * 3)(1 << 32 | 0x466243B1, ctypes.addressof(self.image))
        names = ("count", "fault", "factor", "table")
        # The runtime keeps the texts, and compares addresses.
        self.texts = {name: ctypes.c_char_p(name.encode()) for name in (*names, "counter")}
        self.symbols = {name: ctypes.c_int() for name in names}
        self.handle = begin(self.wrapper)
        for name in names:
            form = "Function" if name in ("count", "fault") else "Var"
            self.register(form, ctypes.byref(self.symbols[name]), name)
        self.register("ManagedVar", ctypes.byref(self.counter), "counter")

    def register(self, form: str, host: Any, name: str) -> None:
        """Register a symbol. The runtime ignores the other parameters."""
        self[f"__cudaRegister{form}"](self.handle, host, None, self.texts[name], *[0] * 6)

    def close(self) -> None:
        """Do what nvcc's code does at exit."""
        self["__cudaUnregisterFatBinary"](self.handle)

    def error(self, name: str, *arguments: Any) -> str:
        """Call a function, and return the name of its error."""
        result: bytes = self.library.cudaGetErrorName(self[name](*arguments))
        return result.decode()

    def address(self, name: str) -> int:
        """Return the host's address of a kernel or a variable."""
        return ctypes.addressof(self.symbols[name])

    def launch(
        self,
        kernel: int,
        by: int = 1,
        grid: int = 1,
        block: int = 1,
        shared: int = 0,
        form: str = "cudaLaunchKernel",
    ) -> str:
        """Launch a kernel with a number, and return the name of the error."""
        value = ctypes.c_int(by)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        dimensions = (Dim3(grid, 1, 1), Dim3(block, 1, 1))
        return self.error(form, kernel, *dimensions, arguments, shared, 0)

    def count(self, by: int = 1, grid: int = 1, block: int = 1, shared: int = 0) -> str:
        """Launch the kernel `count`: each thread adds 3 * `by` to the managed variable."""
        return self.launch(self.address("count"), by, grid, block, shared)

    def value(self) -> int:
        """Return the managed variable after all work, as the host's code reads it."""
        self.check("cudaDeviceSynchronize")
        return ctypes.c_int.from_address(self.counter.value or 0).value
