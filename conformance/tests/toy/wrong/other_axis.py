"""A launch has the blocks of the grid's first axis alone."""

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-host",)
REASON = "'negate' of a created module: argument 1 is wrong in 8 of 16 elements; at (2, 0): expected …, got …"


class Kernel(ToyKernel):
    def shape(self, launch):
        return super().shape(launch) // (launch.grid[1] * launch.grid[2])


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
