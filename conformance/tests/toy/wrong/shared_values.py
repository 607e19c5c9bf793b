"""Calls share one place for their arguments, so threads launch with the arguments of others."""

import time

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R32-calls",)
REASON = "'axpy' called by 8 threads: argument 2 is wrong in … of 50 elements; at …"


class Kernel(ToyKernel):
    def caller(self, stream, shape):
        def call(values):
            self.values = values
            time.sleep(0.001)
            self.run(shape, *self.values)

        return call


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
