"""The arena of a stand-in driver, at its own address: the kernels' pointers are addresses of this
process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Sequence

from devmod_simulators.drivers.worker_process import ARENA, RESPONSES, Failure, frame

ILLEGAL_ADDRESS = 700
OPERATING_SYSTEM = 304
_PAGE = 4096
_NONE = 0
_READ_WRITE = 3
_MAP_SHARED = 0x1
_MAP_NORESERVE = 0x4000
_MAP_FIXED_NOREPLACE = 0x100000
_SA_SIGINFO = 4
_SI_ADDR = 16  # its offset in siginfo_t

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Arena:
    """The arena, of which a kernel can access the ranges of its launch alone: an access elsewhere
    ends the process with a response.

    Parameters
    ----------
    base, size
        The addresses of the arena.
    """

    def __init__(self, base: int, size: int) -> None:
        self.base = base
        self.end = base + size
        address = _libc.mmap(
            base, size, _NONE, _MAP_SHARED | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE, ARENA, 0
        )
        if address != base:
            raise OSError(ctypes.get_errno(), "the arena cannot be mapped at its address")
        self._open: list[tuple[int, int]] = []

    def protect(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Let the process access the ranges of memory, and nothing else of the arena."""
        pages = [
            (start // _PAGE * _PAGE, -(-(start + size) // _PAGE) * _PAGE) for start, size in ranges
        ]
        if any(start < self.base or end > self.end for start, end in pages):
            raise Failure(OPERATING_SYSTEM, "a range of memory is outside the arena")
        if pages == self._open:
            return
        for start, end in self._open:
            self._set(start, end, _NONE)
        for start, end in pages:
            self._set(start, end, _READ_WRITE)
        self._open = pages

    def _set(self, start: int, end: int, access: int) -> None:
        if _libc.mprotect(start, end - start, access):
            raise Failure(OPERATING_SYSTEM, f"mprotect: {os.strerror(ctypes.get_errno())}")

    def view(self, address: int, size: int) -> memoryview:
        """Return the memory at an address."""
        return memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B")

    def check_ends(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Raise an error if something was written between the end of an allocation and the end of
        its page: there were zeros.
        """
        for start, size in ranges:
            end = start + size
            rest = -end % _PAGE
            tail = self.view(end, rest)
            if rest and tail != bytes(rest):
                place = next(index for index, byte in enumerate(tail) if byte)
                tail[:] = bytes(rest)
                raise Failure(
                    ILLEGAL_ADDRESS,
                    f"a write at 0x{end + place:x}, {place} bytes behind the end of an allocation",
                )


class _SignalAction(ctypes.Structure):
    """sigaction of Linux on x86_64."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint8 * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)  # type: ignore[untyped-decorator]  # typeshed has no types for it
def _on_fault(number: int, information: int, context: int) -> None:
    """Write the response of the launch, and end: machine code that has faulted cannot be left."""
    (address,) = struct.unpack("<Q", ctypes.string_at(information + _SI_ADDR, 8))
    os.write(
        RESPONSES,
        frame(ILLEGAL_ADDRESS, f"an access at 0x{address:x}, where the kernel has no memory"),
    )
    os._exit(0)


def report_faults() -> None:
    """Let a wrong access of machine code end the process with a response."""
    action = _SignalAction(handler=ctypes.cast(_on_fault, ctypes.c_void_p), flags=_SA_SIGINFO)
    for number in (signal.SIGSEGV, signal.SIGBUS):
        if _libc.sigaction(int(number), ctypes.byref(action), None):
            raise OSError(ctypes.get_errno(), "sigaction")
