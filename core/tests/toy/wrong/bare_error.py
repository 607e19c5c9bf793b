"""It reads bytes without looking whether they are there."""

import struct

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R19-refused",)
REASON = "… of … damaged modules; the first (…): error: unpack_from requires a buffer of at least 8 bytes …"


def load_from_bytes(data):
    struct.unpack_from("<Q", data)
    return ToyModule.from_wire(TARGET, data)
