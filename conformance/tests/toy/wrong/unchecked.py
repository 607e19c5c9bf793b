"""A function passes its arguments to the driver without checks."""

from devmod_toy._device import driver
from devmod_toy._module import ToyModule, entries

ROWS = ("R34-invalid", "R35-values", "R37-nothing")
REASON = "'axpy' with too few arguments: expected ArgumentError, got TypeError: axpy() missing 1 required positional argument: 'n'"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        _, info = self.find_function(name)
        self.payload()
        run = driver().KERNELS[info.name]

        def call(*args, grid=1, block=1, stream=None):
            values = [bytearray(each) if hasattr(each, "shape") else each for each in args]
            run(4096, *values)

        return call


create, load_from_bytes, load_from_file = entries(Wrong)
