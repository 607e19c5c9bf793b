"""It does not look whether anything follows the last field."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

from devmod import FormatError

ROWS = ("R19-refused",)
REASON = "… of … damaged modules; the first (a byte more): is loaded, and other bytes are saved"


def load_from_bytes(data):
    try:
        return ToyModule.from_wire(TARGET, data)
    except FormatError:
        return ToyModule.from_wire(TARGET, data[:-1])
