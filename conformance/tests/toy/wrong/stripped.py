"""A loaded module saves another payload."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

from devmod.backend import decode

ROWS = ("R19-same",)
REASON = "the bytes after loading and saving: expected 316 bytes, got 315; they differ from byte …"


def load_from_bytes(data):
    fmt, fmap, code = decode(TARGET, data)
    return ToyModule(TARGET, fmt, fmap, bytes(code).rstrip())
