"""What only ROCm's devices have: limits, versions, the current device;
plugins/driver-api/tests has the tests of devices.
"""

from __future__ import annotations

from typing import Any

from backend_checks import run_python
from standin_rocm import Standin, needs_emulator


def test_the_limits(device: Any, standin: Standin) -> None:
    assert (device.arch, device.driver_version) == ("gfx1100", "HIP 7.2")
    assert device.limits == {
        "max_threads_per_block": 1024,
        "max_block_dim_x": 1024,
        "max_block_dim_y": 1024,
        "max_block_dim_z": 1024,
        "max_grid_dim_x": 2147483647,
        "max_grid_dim_y": 65536,
        "max_grid_dim_z": 65536,
        "max_shared_memory_per_block": 65536,
        "warp_size": 32,
        "max_registers_per_block": 65536,
        "multiprocessor_count": 16,
        "max_threads_per_multiprocessor": 2048,
        "cooperative_launch": 1,
        "view_alignment": 1,
    }


# -- several devices

TWO_DEVICES = """
import devmod
from rocm_kernels import module
first, second = (devmod.device("rocm", number) for number in (0, 1))
driver = first.driver
refused, error = set(), driver.error
driver.error = lambda call, status: refused.add(call) or error(call, status)
add = module()["add"]
arrays = [device.zeros(64, "float32") for device in (first, second)]
launches = [add.bind(c, c, c, 64, grid=1, block=64) for c in arrays]
for current in (0, 1):  # the device that the user's code has set stays the current one
    driver.call("set_context", current)
    for device, launch, c in zip((first, second), launches, arrays):
        launch()
        stream = device.stream()
        stream.record().synchronize()
        with stream.batch():
            add(c, c, c, 64, grid=1, block=64, stream=stream)
        stream.synchronize()
        device.zeros(4, "float32").numpy()
        del stream
        assert driver.call("current_context") == current
assert "hipModuleLaunchKernel" not in refused  # a launch on another device than the current one
# A stream of another library on the second device.
from devmod_rocm._launch import ADOPTION
own = second.stream()
class Stream:
    __module__ = "torch.cuda"
    cuda_stream = own.handle
assert ADOPTION.adopt_stream(Stream()).device is second
class Null:
    __module__ = "torch.cuda"
    cuda_stream, device_index = 0, 1
Null.__name__ = "Stream"
assert ADOPTION.adopt_stream(Null()) is second.default_stream
print("done")
"""


def test_the_current_device_and_the_streams_of_two_devices(environment: dict[str, str]) -> None:
    needs_emulator()
    assert run_python(TWO_DEVICES, **environment, DEVMOD_STANDIN_DEVICES="2") == "done\n"
