"""The kernels get the scalars that are floats rounded to float16."""

import struct

from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R34-floats",)
REASON = "'axpy' with 3.3333333333333335 as argument 3: argument 2 is wrong in … of 50 elements; at …: expected …, got …"


class Kernel(ToyKernel):
    def caller(self, stream, shape):
        run = super().caller(stream, shape)

        def call(values):
            if len(values) == 4 and len(values[2]) == 4 and self.run.__name__ == "axpy":
                values = [
                    *values[:2],
                    struct.pack("<f", *struct.unpack("<e", struct.pack("<e", *struct.unpack("<f", values[2])))),
                    values[3],
                ]
            run(values)

        return call


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
