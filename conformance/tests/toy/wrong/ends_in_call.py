"""A call ends the process; the rows without calls still run."""

import os
import signal

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-host", "R34-invalid", "R37-bind")
REASON = "the process that checks this row ends with signal 11"


class Kernel(ToyKernel):
    def shape(self, launch):
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
        return super().shape(launch)


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
