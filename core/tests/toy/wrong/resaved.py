"""It encodes again what it was loaded from."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

from devmod.backend import decode

ROWS = ("R19-forms",)
REASON = "bytes in a longer form, loaded and saved: 281 bytes instead of …, which differ from byte 0 on: …"


def load_from_bytes(data):
    fmt, fmap, code = decode(TARGET, data)
    return ToyModule(TARGET, fmt, fmap, code)
