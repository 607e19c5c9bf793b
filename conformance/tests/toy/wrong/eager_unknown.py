"""get_function opens the driver before it checks the name."""

from devmod_toy._device import driver
from devmod_toy._module import ToyModule, entries

ROWS = ("R23-lazy",)
REASON = "get_function of an unknown name fails without the driver: DeviceNotFoundError: the toy's driver is missing. To add it: pip install toydriver"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        driver()
        return super().get_function(name, query_imports)


create, load_from_bytes, load_from_file = entries(Wrong)
