"""load_from_bytes ignores bytes after the last field."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

from devmod import FormatError

ROWS = ("R19-refused",)
REASON = "… of … variants of damaged bytes fail; the first (one more byte): the bytes are loaded, and saving returns other bytes"


def load_from_bytes(data):
    try:
        return ToyModule.from_wire(TARGET, data)
    except FormatError:
        return ToyModule.from_wire(TARGET, data[:-1])
