"""Its kernels run on its first device alone."""

from devmod_toy._module import ToyLauncher, ToyModule, entries

import devmod

ROWS = ("R33-several",)
REASON = "LaunchError: this toy plays on its first device"


class Launcher(ToyLauncher):
    def kernel(self, device):
        if device.index:
            raise devmod.LaunchError("this toy plays on its first device", kind="toy")
        return super().kernel(device)


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
