"""After an interrupt of a launch, the next one does not run."""

import time

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-interrupts",)
REASON = "…, called after KeyboardInterrupt at random moments, raises AssertionError: wrong in …"
_RUNNING = []


class Kernel(ToyKernel):
    def caller(self, stream, shape):
        call = super().caller(stream, shape)

        def call_alone(values):
            if _RUNNING:
                _RUNNING.clear()
                return
            _RUNNING.append(True)
            time.sleep(0.005)
            call(values)
            _RUNNING.clear()

        return call_alone


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
