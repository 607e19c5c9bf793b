"""The driver of this process: ctypes or hip-python, as ``DEVMOD_ROCM_DRIVER`` selects. No other file selects a driver."""

from __future__ import annotations

import os

from devmod.backend import Once, check_driver, driver_import_error, environment_text
from devmod.errors import DeviceNotFoundError
from devmod_driver_api.choice import choose_driver
from devmod_driver_api.driver import record_open_driver
from devmod_driver_api.errors import DriverError
from devmod_rocm._api import HIP
from devmod_rocm._library import is_same, open_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_rocm._calls import HipDriver

__all__ = ["VARIABLE", "driver_name", "get_driver", "version_text"]

#: The environment variable that names the driver.
VARIABLE = "DEVMOD_ROCM_DRIVER"
_NAMES = ("ctypes", "hip-python")
#: The modules of hip-python, from version 10 on and before.
_MODULES = ("rocm.bindings.hip", "hip.hip")
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


def driver_name() -> str:
    """Return the name of the driver: that of ``DEVMOD_ROCM_DRIVER``, else hip-python if it is installed, else ctypes.

    Raises
    ------
    DeviceNotFoundError
        The variable has another value.
    """
    return choose_driver(HIP, VARIABLE, environment_text(VARIABLE), _NAMES, _MODULES)


def _open() -> HipDriver:
    name = driver_name()
    driver = _open_hip_python() if name == "hip-python" else _open_symbols(open_library())
    _initialize(driver)
    record_open_driver(driver)  # not before: a runtime that does not start is not open in a forked child
    return driver


def _open_symbols(library: Any) -> HipDriver:
    from devmod_rocm._symbols import SymbolsDriver

    return SymbolsDriver(library)


def _open_hip_python() -> HipDriver:
    try:
        from devmod_rocm._hip_python import HipPythonDriver, library_path
    except ImportError as error:
        package = "hip-python"
        install, repair = 'pip install "devmod-rocm[hip-python]"', f"pip install --force-reinstall {package}, or set {VARIABLE}=ctypes"
        modules = ("hip", "hip.hip")
        raise driver_import_error(error, "rocm", "ROCm", package, modules=modules, install=install, repair=repair) from error
    path = library_path()
    library = open_library(path)
    if not is_same(library, path):
        if not environment_text(VARIABLE):
            return _open_symbols(library)  # two runtimes in one process do not work together
        raise DeviceNotFoundError(
            f"no ROCm device can be used: hip-python opens {path}, and this process uses {library._name}. Set {VARIABLE}=ctypes, or let "
            f"LD_LIBRARY_PATH name a folder in which libamdhip64.so is that library",
            kind="rocm",
        )
    return HipPythonDriver(library)


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


def version_text(version: int) -> str:
    """Return a version number of HIP such as 60342134 as text: "6.3"."""
    return f"{version // 10_000_000}.{version // 100_000 % 100}"
