"""A forked child waits for a thread of its parent."""

import os
import time

from devmod_toy._conformance import ToyConformance
from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-forks",)
REASON = (
    "a child of a process that has used the backend hangs. Call devmod_runtime.open_driver before the driver's first call, and check_driver "
    "in each method of a device, stream or event that calls the driver"
)
_OPENED: set[int] = set()


class Kernel(ToyKernel):
    def caller(self, stream, shape):
        enqueue = super().caller(stream, shape)

        def call(values):
            _OPENED.add(os.getpid())
            if len(_OPENED) > 1:
                time.sleep(1000)
            return enqueue(values)

        return call


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


class ShortTimeout(ToyConformance):
    timeout = 3 * float(os.environ.get("TOY_TIMEOUT", "2"))


create, load_from_bytes, load_from_file = entries(Wrong)
