"""Launch a kernel of Triton on AMD's driver, whose library runs nothing. Print the number of
compiles.
"""

import triton
from triton.backends.amd import driver as amd
from triton.backends.amd.compiler import HIPBackend
from triton.backends.compiler import GPUTarget
from triton_packaged import add

compiles = []
add_stages = HIPBackend.add_stages


def count_stages(self, stages, *arguments):
    compiles.append(1)
    return add_stages(self, stages, *arguments)


class Array:
    """What Triton takes of an array."""

    dtype = "fp32"

    def data_ptr(self):
        return 1 << 20

    def ptr_range(self):
        return 4000


HIPBackend.add_stages = count_stages
driver = amd.HIPDriver()
driver.get_current_target = lambda: GPUTarget("hip", "gfx942", 64)
driver.get_current_device = driver.get_current_stream = lambda device=0: 0
limits = {"max_shared_mem": 65536, "max_num_regs": 512, "warpSize": 64}
driver.utils.get_device_properties = lambda device: limits
triton.runtime.driver.set_active(driver)
add[(4,)](Array(), Array(), Array(), 1000, BLOCK=256, num_warps=2)
print("compiles", len(compiles))
