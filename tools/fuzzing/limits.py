"""The limits on the time and memory of one call, by the size of its input."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

#: Seconds of processor time: what any input may take, and what each million bytes may take in one
#: pass. devmod promises 1 (SECURITY.md); a slow machine may take longer.
SECONDS = 1.5
SECONDS_A_MB = 3.0
#: Bytes of memory: what any input may take, and what each of its bytes may take.
MEMORY = 64 << 20
MEMORY_A_BYTE = 100


class Excess(Exception):
    """A reader takes more time or memory than its input explains."""


def peak() -> int:
    """Return the most memory that this process has had, in bytes. Linux counts in `ru_maxrss` that
    of the process that started it.
    """
    try:
        with open("/proc/self/status", "rb") as file:
            return int(file.read().partition(b"VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def bounded(act: Callable[[], None], size: int, passes: int = 1, *, native: bool = False) -> None:
    """Call `act`, and raise Excess if it exceeds the limits for `passes` passes over `size` bytes.
    Memory is not limited if `native`.
    """
    memory = peak()
    start = time.process_time()
    try:
        act()
    finally:
        seconds = time.process_time() - start
        grown = peak() - memory
    if seconds > SECONDS + SECONDS_A_MB * passes * size / 1e6:  # never, if SECONDS is infinite
        raise Excess(f"{seconds:.1f} s for {size} bytes")
    if not native and grown > MEMORY + MEMORY_A_BYTE * size:
        raise Excess(f"{grown >> 20} MiB for {size} bytes")
