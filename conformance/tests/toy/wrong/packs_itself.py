"""The scalars of a block are read one by one, so a record is taken for each of them."""

from devmod_toy._device import driver
from devmod_toy._module import ToyModule, entries

ROWS = ("R34-records",)
REASON = "error: unpack requires a buffer of 4 bytes"


class Wrong(ToyModule):
    def launcher(self, name, info):
        super().launcher(name, info)
        return self.launcher_type(driver().KERNELS[info.name])


create, load_from_bytes, load_from_file = entries(Wrong)
