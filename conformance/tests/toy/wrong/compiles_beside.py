"""The replaced compiler is called, but another function runs."""

from devmod_toy._device import driver
from devmod_toy._module import ToyModule, entries

ROWS = ("R31-used",)
REASON = "'axpy' with a replaced compiler: argument 2 is wrong in 40 of 50 elements; at 0: expected …, got …"


class Wrong(ToyModule):
    def launcher(self, name, info):
        result = super().launcher(name, info)
        if self.code[:3] != b"toy":
            result.run = lambda threads, *values: driver().KERNELS["negate"](threads, values[0])
        return result


create, load_from_bytes, load_from_file = entries(Wrong)
