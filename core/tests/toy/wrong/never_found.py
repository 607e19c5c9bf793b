"""It says that there is no device, though there is one: every row that runs something would be skipped."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R24-runs",)
REASON = "there is toy device 0 (toy number 0), and no sample finds a device to run on: no toy. Install one"


class Wrong(ToyModule):
    def launcher(self, name, info):
        raise devmod.DeviceNotFoundError("no toy. Install one", kind="toy")


create, load_from_bytes, load_from_file = entries(Wrong)
