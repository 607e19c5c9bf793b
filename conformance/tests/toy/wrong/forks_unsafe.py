"""Its driver works only in the process that opened it, and open_driver is not called."""

import os

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-forks",)
REASON = "a call of a function of the parent, in a child of a process that has used the backend, raises RuntimeError: the context is of another process. Call devmod_runtime.open_driver before the driver's first call"
_OPENED: set[int] = set()


class Kernel(ToyKernel):
    def caller(self, stream, shape):
        enqueue = super().caller(stream, shape)

        def call(values):
            _OPENED.add(os.getpid())
            if len(_OPENED) > 1:
                raise RuntimeError("the context is of another process")
            return enqueue(values)

        return call


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
