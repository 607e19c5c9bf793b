"""A loaded module saves another payload: it has been tidied."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

from devmod.backend import decode

ROWS = ("R19-same",)
REASON = "loaded and saved: 280 bytes instead of 281, which differ from byte …"


def load_from_bytes(data):
    fmt, fmap, code = decode(TARGET, data)
    return ToyModule(TARGET, fmt, fmap, bytes(code).rstrip())
