"""The driver of this process: HIP's runtime by ctypes."""

from __future__ import annotations

import os

from devmod.backend import Once
from devmod.errors import DeviceNotFoundError
from devmod_rocm._calls import HipDriver
from devmod_rocm._library import open_library
from devmod_runtime import check_driver
from devmod_runtime.driver_api.api import DriverError
from devmod_runtime.driver_api.driver import record_open_driver

#: The environment variables by which HIP hides devices.
_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
#: The device file of the kernel's driver.
_KFD = "/dev/kfd"
_NO_DEVICE = "hipErrorNoDevice"
_once = Once()


def get_driver() -> HipDriver:
    """Return the driver, always the same object. The first call opens it.

    Raises
    ------
    DeviceNotFoundError
        The runtime is missing, or has no device. The next call tries again.
    LaunchError
        This process was forked after the driver was opened.
    """
    check_driver("rocm")
    driver: HipDriver = _once.get("driver", _open)
    return driver


def _open() -> HipDriver:
    driver = HipDriver(open_library())
    _initialize(driver)
    record_open_driver(driver)  # not before: a runtime that does not start is not open in a forked child
    return driver


def _initialize(driver: HipDriver) -> None:
    """Initialize a driver.

    Raises
    ------
    DeviceNotFoundError
        It does not start, or has no device.
    """
    try:
        count = driver.device_count()  # first: hipInit of HIP 5 has another error without a device
        driver.initialize()
    except DriverError as error:
        if error.name == _NO_DEVICE:
            raise _no_device(str(error)) from error
        raise DeviceNotFoundError(
            f"no ROCm device can be used: the runtime does not start: {error}. Run rocminfo to test it", kind="rocm"
        ) from error
    if not count:
        raise _no_device("hipGetDeviceCount returns 0")


def _no_device(why: str) -> DeviceNotFoundError:
    variable = next((name for name in _VISIBLE if name in os.environ), "")
    if variable:
        advice = f"{variable} is {os.environ[variable]!r}"
    elif not os.path.exists(_KFD):
        advice = f"{_KFD} is missing: load the kernel module amdgpu; in a container, pass --device={_KFD} --device=/dev/dri"
    elif not os.access(_KFD, os.R_OK | os.W_OK):
        advice = f"this user may not open {_KFD}: sudo usermod -a -G render,video $LOGNAME, then log in again"
    else:
        advice = "rocminfo lists the devices of the driver"
    return DeviceNotFoundError(f"no ROCm device was found: {why}; {advice}", kind="rocm")
