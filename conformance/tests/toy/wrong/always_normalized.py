"""Coordinates are from 0 to 1 also where they are to be in texels."""

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

import devmod

ROWS = ("R37-sampled",)
REASON = "'sample' of an image of type 2d and format rgba8unorm with <Sampler filter='nearest', address='clamp', normalized=False on …>: argument 1 is wrong in …"


class Kernel(ToyKernel):
    def caller(self, stream, shape):
        run = super().caller(stream, shape)
        return lambda values: run([_changed(value) for value in values])


def _changed(value):
    if isinstance(value, devmod.Sampler):
        return devmod.Sampler(value.device, value.filter, value.address, True)
    return value


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
