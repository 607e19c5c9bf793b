"""Kernels run on the first device only."""

from devmod_toy._module import ToyLauncher, ToyModule, entries

import devmod

ROWS = ("R33-several",)
REASON = "a process that uses the backend ends with exit status 1: …LaunchError: only the first device is supported"


class Launcher(ToyLauncher):
    def kernel(self, device):
        if device.index:
            raise devmod.LaunchError("only the first device is supported", kind="toy")
        return super().kernel(device)


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
