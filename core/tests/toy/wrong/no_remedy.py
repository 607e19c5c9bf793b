"""Without the driver, nobody learns what to do."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R23-absent",)
REASON = "get_function of sample 1 without the driver does not say what to install: 'no toy here'"


class Wrong(ToyModule):
    def launcher(self, name, info):
        try:
            return super().launcher(name, info)
        except devmod.DeviceNotFoundError:
            raise devmod.DeviceNotFoundError("no toy here", kind="toy") from None


create, load_from_bytes, load_from_file = entries(Wrong)
