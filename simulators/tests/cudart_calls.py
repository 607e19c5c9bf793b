"""Programs that use a stand-in CUDA runtime: what nvcc's code calls, through ctypes."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from typing import Any

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


class Dim3(ctypes.Structure):
    """dim3."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class Wrapper(ctypes.Structure):
    """What nvcc puts beside a fatbin."""

    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("image", c_void_p),
        ("more", c_void_p),
    )


class Program:
    """The part of a program that nvcc writes: it registers an image, its kernels and variables.

    Attributes
    ----------
    counter
        The host's pointer of the managed variable.
    """

    def __init__(self, runtime: ctypes.CDLL, image: bytes = PTX, version: int = 1) -> None:
        self.runtime = runtime
        self.image = ctypes.create_string_buffer(image)
        self.wrapper = Wrapper(0x466243B1, version, ctypes.addressof(self.image), None)
        # Only the addresses of the symbols count. The runtime keeps those of the names.
        self.names = {
            name: c_char_p(name.encode())
            for name in ("count", "fault", "factor", "table", "counter")
        }
        self.symbols = {name: c_int() for name in self.names}
        self.counter = c_void_p()
        runtime.__getattr__("__cudaRegisterFatBinary").restype = c_void_p
        self.handle = c_void_p(self.call("__cudaRegisterFatBinary", byref(self.wrapper)))
        for name in ("count", "fault"):
            words = (self.address(name), None, self.names[name], -1, *[None] * 5)
            self.call("__cudaRegisterFunction", self.handle, *words)
        for name, size in (("factor", 4), ("table", 16)):
            words = (self.address(name), None, self.names[name], 0, c_size_t(size), 0, 0)
            self.call("__cudaRegisterVar", self.handle, *words)
        self.call(
            "__cudaRegisterManagedVar",
            self.handle,
            byref(self.counter),
            *(None, self.names["counter"], 0, c_size_t(4), 0, 0),
        )
        self.call("__cudaRegisterFatBinaryEnd", self.handle)

    def close(self) -> None:
        """Do what nvcc's code does at exit."""
        self.call("__cudaUnregisterFatBinary", self.handle)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the runtime."""
        return getattr(self.runtime, name)(*arguments)

    def address(self, name: str) -> c_void_p:
        """Return the host's address of a kernel or a variable."""
        return c_void_p(ctypes.addressof(self.symbols[name]))

    def count(self, by: int, grid: int = 1, block: int = 1, shared: int = 0) -> str:
        """Launch the kernel `count`, and return the name of the error."""
        value = c_int(by)
        arguments = (c_void_p * 1)(ctypes.addressof(value))
        number = self.call(
            "cudaLaunchKernel",
            self.address("count"),
            *(Dim3(grid, 1, 1), Dim3(block, 1, 1), arguments, c_size_t(shared), None),
        )
        return self.name(number)

    def name(self, number: int) -> str:
        """Return the name of an error."""
        self.runtime.cudaGetErrorName.restype = c_char_p
        result: bytes = self.runtime.cudaGetErrorName(number)
        return result.decode()

    def value(self) -> int:
        """Return the managed variable, as the host's code reads it."""
        assert self.counter.value is not None
        return c_int.from_address(self.counter.value).value
