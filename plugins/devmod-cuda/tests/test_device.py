"""What only CUDA's devices have: limits, versions, contexts; plugins/driver-api/tests has
the tests of devices.
"""

from __future__ import annotations

from typing import Any

import pytest
from backend_checks import run_python
from standin_cuda import Standin


def test_the_limits(device: Any, standin: Standin) -> None:
    assert (device.arch, device.driver_version) == ("sm_90:ptx9.5", "CUDA 13.5")
    limits = device.limits
    expected = {
        "max_threads_per_block": 1024,
        "max_block_dim_z": 64,
        "max_grid_dim_x": 2147483647,
        "max_grid_dim_y": 65535,
        "warp_size": 32,
    }
    assert expected.items() <= limits.items()
    assert (limits["max_shared_memory_per_block"], limits["max_shared_memory_per_block_optin"]) == (
        48 << 10,
        227 << 10,
    )


# -- several devices

TWO_DEVICES = """
import devmod
from cuda_kernels import adder
first, second = (devmod.device("cuda", number) for number in (0, 1))
assert (first.arch, second.arch) == ("sm_90:ptx9.5", "sm_100:ptx9.5"), second.arch
add = adder()["add"]
launches = []
for device in (first, second):
    a, b, c = device.zeros(64, "float32"), device.zeros(64, "float32"), device.zeros(64, "float32")
    launches.append((add.bind(a, b, c, 64, grid=1, block=64), c))
driver = first.driver
driver.call("set_context", 0)
assert driver.call("current_context") == 0
second.zeros(4, "float32").numpy()
assert driver.call("current_context") == 0
driver.call("set_context", first.context.handle)
launches[1][0]()
second.stream().record().synchronize()
assert driver.call("current_context") == first.context.handle
target = second.from_numpy(launches[0][1].numpy() + 5)
class Described:
    __cuda_array_interface__ = target.__cuda_array_interface__
try:
    add(launches[0][1], Described(), launches[0][1], 64, grid=1, block=64)
except devmod.ArgumentError as error:
    assert str(error) == (
        f"the cuda function 'add': argument 2 'b' is on {second}, and argument 1 'a' is on {first}; a launch runs on one device: copy the "
        "array through the host"), error
else:
    raise AssertionError("arrays of two devices in one launch")
add(Described(), Described(), target, 64, grid=1, block=64)
assert target.numpy().tolist() == [10] * 64
print("done")
"""


@pytest.mark.each_driver
def test_the_contexts_and_array_interfaces_of_two_devices(environment: dict[str, str]) -> None:
    assert (
        run_python(
            TWO_DEVICES, **environment, DEVMOD_STANDIN_DEVICES="2", DEVMOD_STANDIN_ARCH="90,100"
        )
        == "done\n"
    )
