"""The error for a missing driver does not name what to install."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R23-absent",)
REASON = "the error of get_function of sample 1 without the driver does not name what to install: 'no toy driver'"


class Wrong(ToyModule):
    def launcher(self, name, info):
        try:
            return super().launcher(name, info)
        except devmod.DeviceNotFoundError:
            raise devmod.DeviceNotFoundError("no toy driver", kind="toy") from None


create, load_from_bytes, load_from_file = entries(Wrong)
