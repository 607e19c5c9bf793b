"""Creating a module opens the driver."""

from devmod_toy._device import driver
from devmod_toy._module import ToyModule, entries

ROWS = ("R23-lazy",)
REASON = "create fails without the driver: DeviceNotFoundError: the toy's driver is missing. To add it: pip install toydriver"


class Wrong(ToyModule):
    def __init__(self, *args, **keywords):
        super().__init__(*args, **keywords)
        driver()


create, load_from_bytes, load_from_file = entries(Wrong)
