"""A kernel writes to a copy of its image."""

from devmod_toy._module import changing_values, entries

import devmod

ROWS = ("R37-written",)
REASON = "'write' called, which writes to an image: argument 1 is wrong in …"


def _changed(value):
    if isinstance(value, devmod.Image):
        return devmod.Image(value.device, value.shape, value.format, value.layers, bytearray(value.handle))
    return value


create, load_from_bytes, load_from_file = entries(changing_values(_changed))
