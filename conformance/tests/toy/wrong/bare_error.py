"""load_from_bytes does not check the length of its input."""

import struct

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R19-refused",)
REASON = "… of … variants of damaged bytes fail; the first (empty): error: unpack_from requires a buffer of at least 8 bytes …"


def load_from_bytes(data):
    struct.unpack_from("<Q", data)
    return ToyModule.from_wire(TARGET, data)
