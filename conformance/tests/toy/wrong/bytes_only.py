"""load_from_bytes accepts bytes and no other buffer."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R5-buffers",)
REASON = "TypeError: a bytes-like object is required, not 'bytearray'"


def load_from_bytes(data):
    if not isinstance(data.obj, bytes):
        raise TypeError(f"a bytes-like object is required, not {type(data.obj).__name__!r}")
    return ToyModule.from_wire(TARGET, data)
