"""A bound launch runs once."""

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-bind",)
REASON = "'axpy' bound and launched twice: argument 2 is wrong in 40 of 50 elements; at 0: expected …, got …"


class Kernel(ToyKernel):
    def prepare(self, stream, shape, values):
        waiting = [super().prepare(stream, shape, values)]
        return lambda: waiting.pop()() if waiting else None


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
