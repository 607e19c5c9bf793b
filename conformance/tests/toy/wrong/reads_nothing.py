"""get_function does not read the payload."""

from devmod_toy._device import driver
from devmod_toy._module import ToyModule, entries

ROWS = ("R31-used", "R40-refused", "R30-build")
REASON = "get_function does not call the replaced compiler"


class Wrong(ToyModule):
    def launcher(self, name, info):
        return self.launcher_type(driver().KERNELS[info.name])


create, load_from_bytes, load_from_file = entries(Wrong)
