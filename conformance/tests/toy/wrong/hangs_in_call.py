"""A call does not return."""

import os
import time

from devmod_toy._conformance import ToyConformance
from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-host",)
REASON = "the process that checks this row does not end"


class Kernel(ToyKernel):
    def shape(self, launch):
        time.sleep(1000)
        return super().shape(launch)


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


class ShortTimeout(ToyConformance):
    timeout = float(os.environ.get("TOY_TIMEOUT", "2"))


create, load_from_bytes, load_from_file = entries(Wrong)
