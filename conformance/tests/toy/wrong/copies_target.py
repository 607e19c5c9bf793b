"""A kernel writes to a copy of its image."""

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

import devmod

ROWS = ("R37-written",)
REASON = "'write' called, which writes to an image: argument 1 is wrong in …"


class Kernel(ToyKernel):
    def caller(self, stream, shape):
        run = super().caller(stream, shape)
        return lambda values: run([_changed(value) for value in values])


def _changed(value):
    if isinstance(value, devmod.Image):
        return devmod.Image(value.device, value.shape, value.format, value.layers, bytearray(value.handle))
    return value


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
