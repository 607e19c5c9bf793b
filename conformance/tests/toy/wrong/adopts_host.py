"""A host array is an image, whose format is a guess."""

import numpy as np
from devmod_toy._device import devices
from devmod_toy._module import ToyLauncher, ToyModule, entries

ROWS = ("R34-images",)
REASON = "'sample' with a host array as an image: expected ArgumentError, but the kernel was launched"


class Launcher(ToyLauncher):
    def adopt(self, value):
        if isinstance(value, np.ndarray) and value.dtype == "uint8":
            return devices()[0].image_from_numpy(value), None
        return None


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
