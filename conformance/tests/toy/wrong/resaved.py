"""A loaded module encodes its fields again."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

from devmod.backend import decode

ROWS = ("R19-forms",)
REASON = "bytes in msgpack's longest forms, after loading and saving: expected … bytes, got …; they differ from byte …"


def load_from_bytes(data):
    fmt, fmap, code = decode(TARGET, data)
    return ToyModule(TARGET, fmt, fmap, code)
