"""The backend chooses blocks of three threads."""

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R34-open",)
REASON = "the block that the backend chooses for 'shift': expected powers of two, got (3, 1, 1)"


class Kernel(ToyKernel):
    def choose_block(self, threads):
        return (3, 1, 1)


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
