"""A repair for PoCL on a processor that its LLVM is too old to know.

PoCL hands the name that LLVM finds for the processor back to clang. Where LLVM does not know the processor (PoCL 3.0, the version
that pip brings, holds LLVM 14, so Zen 5 is one) that name is "generic", which clang refuses for x86-64, and every build fails
with "unknown target CPU 'generic'" (https://github.com/pocl/pocl/issues/1049; no option reaches that name). So the name is put
right in PoCL's own record of the device, once, before the first build.

The record's layout is not public. It is read through /proc/self/mem, where a wrong address is an error and no crash, and is
changed only where it holds what this repair is for: a pointer to "x86_64-…-linux-gnu", followed by one to "generic". The first
such pair is the device's own: what lies behind its record may be the record of the next device.

To be removed when the oldest PoCL that is supported knows better.
"""

from __future__ import annotations

import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RECORD = 4096
#: What LLVM 14 calls the levels of x86-64, best first, and the processor flags that each is told by.
_LEVELS: tuple[tuple[bytes, set[str]], ...] = (
    (b"x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    (b"x86-64-v3", {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe"}),
    (b"x86-64-v2", {"sse4_2", "ssse3", "popcnt"}),
    (b"x86-64", set()),
)
#: The names that PoCL points at from now on.
_names = {name: ctypes.create_string_buffer(name) for name, _ in _LEVELS}


def repair(device: Any) -> bool:
    """Name the processor for PoCL where it could not; whether that was done. Other devices are left alone."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return False
    if device.platform.name != "Portable Computing Language" or not device.version.endswith("-x86_64-unknown-linux-gnu-generic"):
        return False
    try:
        at = _field(device.int_ptr)
    except OSError:
        return False
    if not at:
        return False
    flags = _processor_flags()
    level = next(name for name, wanted in _LEVELS if wanted <= flags)
    ctypes.c_void_p.from_address(at).value = ctypes.addressof(_names[level])
    return True


def _field(record: int) -> int:
    """The address of the pointer to the processor's name; 0 where it is not found."""
    with open("/proc/self/mem", "rb", buffering=0) as memory:

        def read(address: int, size: int) -> bytes:
            try:
                return os.pread(memory.fileno(), size, address)
            except (OSError, OverflowError):  # no such memory
                return b""

        def text(address: int) -> bytes:
            return read(address, 64).partition(b"\0")[0] if address > _RECORD else b""

        words = read(record, _RECORD)
        pointers = [int.from_bytes(words[start : start + 8], sys.byteorder) for start in range(0, len(words) - 7, 8)]
        for number in range(len(pointers) - 1):
            if text(pointers[number]) == b"x86_64-unknown-linux-gnu" and text(pointers[number + 1]) == b"generic":
                return record + 8 * (number + 1)
    return 0


def _processor_flags() -> set[str]:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return set(line.partition(":")[2].split())
    except OSError:
        pass
    return set()
