"""Launch.time does not wait for the launch."""

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-elapsed",)
REASON = "the seconds of one launch of 'wait' by Launch.time: expected … to …, got 1e-06"


class Kernel(ToyKernel):
    def time(self, stream, shape, values):
        return 1e-6


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
