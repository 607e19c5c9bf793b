"""A sampler repeats the image where it is to mirror it."""

from devmod_toy._module import changing_values, entries

import devmod

ROWS = ("R37-sampled",)
REASON = "'sample' of an image of type 2d and format rgba8unorm with <Sampler filter='nearest', address='mirror', normalized=True on …>: argument 1 is wrong in …"


def _changed(value):
    if isinstance(value, devmod.Sampler):
        return devmod.Sampler(value.device, value.filter, "repeat" if value.address == "mirror" else value.address, value.normalized)
    return value


create, load_from_bytes, load_from_file = entries(changing_values(_changed))
