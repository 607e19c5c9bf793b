"""PoCL on processors that are newer than its LLVM, and with a full disk.

PoCL passes LLVM's name of the processor to clang. For an unknown processor this name is "generic",
which clang refuses for x86-64. Every build then fails with "unknown target CPU 'generic'"
(https://github.com/pocl/pocl/issues/1049), and neither an option nor a variable of PoCL changes the
name. PoCL 3.0, the version on PyPI, contains LLVM 14, so Zen 5 is such a processor.

With DEVMOD_OPENCL_POCL_CPU=1 devmod writes another name into PoCL's record of the device, once,
before the first build. The layout of the record is not public. It is read through /proc/self/mem,
where a wrong address is an error and not a crash. Only a pointer to "generic" that follows a
pointer to "x86_64-…-linux-gnu" is changed. The first such pair belongs to the device; the memory
after its record may be the record of the next device.

Remove `name_processor` when the oldest supported PoCL has a newer LLVM.

PoCL's LLVM ends the process if it cannot write to PoCL's cache, so the free space is checked before
a build.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from typing import Any

from devmod.backend import environment_flag
from devmod.errors import DeviceNotFoundError, ToolchainNotFoundError, pip_install
from devmod_opencl._driver import POCL

VARIABLE = "DEVMOD_OPENCL_POCL_CPU"
_RECORD = 4096
#: The bytes that a build needs for a while: one kernel of a line needs between 0.8 and 1.6 MB, and
#: leaves 50 kB.
_NEEDED = 2 << 20
#: LLVM 14's names of the levels of x86-64, best first, and the processor flags of each.
_LEVELS: tuple[tuple[bytes, set[str]], ...] = (
    (b"x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    (b"x86-64-v3", {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe"}),
    (b"x86-64-v2", {"sse4_2", "ssse3", "popcnt"}),
    (b"x86-64", set()),
)
#: The names that PoCL's records point to after a repair. They must stay in memory.
_names = {name: ctypes.create_string_buffer(name) for name, _ in _LEVELS}


def check_space(device: Any) -> None:
    """Check that PoCL's cache has space for a build.

    Raises
    ------
    ToolchainNotFoundError
        It has too little.
    """
    if device.platform.name != POCL:
        return
    folder = _cache_folder()
    existing = folder
    while not os.path.isdir(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    try:
        free = shutil.disk_usage(existing).free
    except OSError:
        return
    if free < _NEEDED:
        raise ToolchainNotFoundError(
            f"{device.name} cannot compile kernels: PoCL writes them to {folder!r}, whose disk has {free} bytes free; a build needs "
            f"{_NEEDED}, and PoCL ends the process without them. Free space on that disk, or set POCL_CACHE_DIR to a folder on another one",
            kind="opencl",
        )


def _cache_folder() -> str:
    """Return the folder that PoCL uses by its rules."""
    environment = os.environ.get
    if folder := environment("POCL_CACHE_DIR"):
        return os.path.abspath(folder)
    folder = environment("XDG_CACHE_HOME")
    home = environment("HOME")
    if home and not folder:
        folder = os.path.join(home, ".cache")
    if folder:
        return os.path.join(folder, "pocl", "kcache")
    return "/tmp/pocl/kcache"  # noqa: S108 - PoCL's


def name_processor(device: Any) -> None:
    """Give PoCL a name for the processor of a device, if it has none and the user allows it.

    Raises
    ------
    DeviceNotFoundError
        PoCL does not know the processor, and the environment variable is not set.
    """
    if sys.platform != "linux" or os.uname().machine != "x86_64" or device.platform.name != POCL:
        return
    if not device.version.endswith("-x86_64-unknown-linux-gnu-generic"):
        return
    try:
        address = _name_pointer(device.int_ptr)
    except OSError:
        return
    if not address:
        return
    if not environment_flag(VARIABLE):
        raise DeviceNotFoundError(
            f"{device.name} cannot compile kernels: the LLVM of this PoCL does not know the processor. Either use another OpenCL "
            f"driver, such as Intel's for the CPU ({pip_install('devmod-opencl[intel]')}), or set {VARIABLE}=1: devmod then writes a name "
            "that PoCL knows into its record of the device, in the memory of this process",
            kind="opencl",
        )
    flags = _processor_flags()
    level = next(name for name, features in _LEVELS if features <= flags)
    ctypes.c_void_p.from_address(address).value = ctypes.addressof(_names[level])


def _name_pointer(record: int) -> int:
    """Return the address of the pointer to the processor's name; 0 if it is not found."""
    if sys.platform == "win32":
        return 0
    with open("/proc/self/mem", "rb", buffering=0) as memory:

        def read(address: int, size: int) -> bytes:
            try:
                return os.pread(memory.fileno(), size, address)
            except (OSError, OverflowError):  # no such memory
                return b""

        def text(address: int) -> bytes:
            if address <= _RECORD:
                return b""
            return read(address, 64).partition(b"\0")[0]

        words = read(record, _RECORD)
        pointers = [
            int.from_bytes(words[start : start + 8], sys.byteorder)
            for start in range(0, len(words) - 7, 8)
        ]
        for number in range(len(pointers) - 1):
            if (
                text(pointers[number]) == b"x86_64-unknown-linux-gnu"
                and text(pointers[number + 1]) == b"generic"
            ):
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
