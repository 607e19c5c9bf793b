"""get_function raises DeviceNotFoundError, although there is a device; the rows that launch would all be skipped."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R24-runs",)
REASON = "no sample finds a device, but devmod.device returns toy device 0 (toy number 0): no toy device. Install one"


class Wrong(ToyModule):
    def launcher(self, name, info):
        raise devmod.DeviceNotFoundError("no toy device. Install one", kind="toy")


create, load_from_bytes, load_from_file = entries(Wrong)
