"""A kernel omits the last element."""

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-host", "R37-device", "R33-functions", "R24-stored")
REASON = "'negate' of a created module: argument 1 is wrong in 1 of 16 elements; at (3, 3): expected …, got …"


class Kernel(ToyKernel):
    def shape(self, launch):
        return super().shape(launch) - 1


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
