"""ROCm devices. They are listed once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from devmod.backend import Once
from devmod.errors import DeviceNotFoundError
from devmod_driver_api.api import DriverError
from devmod_driver_api.device import DriverDevice, list_devices
from devmod_rocm._calls import HIP, HipDriver
from devmod_runtime import open_driver
from devmod_runtime import open_library as open_first

# -- Find and open libamdhip64, HIP's runtime. A process uses only one, and PyTorch for ROCm has its
# own.


#: The names of the library. The first is a link of the development files to the version in use; the
#: others name a version.
NAMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
#: The folder of ROCm, unless an environment variable names another one.
_ROCM = "/opt/rocm"
_VARIABLES = ("ROCM_PATH", "HIP_PATH")
#: The package of ROCm's runtime as a wheel.
_WHEEL = "_rocm_sdk_core"

#: The environment variables by which HIP hides devices.
_VISIBLE = (
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
)
#: The device file of the kernel's driver.
_KFD = "/dev/kfd"
_NO_DEVICE = "hipErrorNoDevice"


def open_library() -> Any:
    """Return ctypes' object of libamdhip64: the one that the process has loaded, else the first one
    that the search finds.

    Raises
    ------
    DeviceNotFoundError
        It is missing, or cannot be opened.
    """
    attempts = open_first(places())
    if attempts[-1].found is not None:
        return attempts[-1].found
    failure = next((each.problem for each in attempts if each.problem), "")
    what = f"{NAMES[0]} cannot be opened ({failure})" if failure else f"{NAMES[0]} is not installed"
    raise DeviceNotFoundError(
        f"no ROCm device can be used: {what}. It is HIP's runtime, a part of ROCm: install AMD's package hip-runtime-amd (Debian, Ubuntu: "
        f"apt install libamdhip64-5), or name the folder of ROCm in {_VARIABLES[0]}. devmod searches the system's libraries as "
        f"{', '.join(NAMES)}, and {_folder()}/lib",
        kind="rocm",
    )


def loaded_library() -> str:
    """Return the path of the libamdhip64 that this process has loaded; "" if there is none."""
    with suppress(OSError), open("/proc/self/maps") as file:
        for line in file:
            path = line.rstrip("\n").partition("/")[2]
            if os.path.basename(path).startswith(NAMES[0]):
                return f"/{path}"
    return ""


def _folder() -> str:
    return next((value for value in map(os.environ.get, _VARIABLES) if value), _ROCM)


def places() -> Iterator[str]:
    """Return the paths and names of libamdhip64 in their order."""
    loaded = loaded_library()
    if loaded:
        yield loaded
    yield from NAMES
    folders = [os.path.join(_folder(), "lib")]
    with suppress(ImportError, ValueError):
        spec = find_spec(_WHEEL)
        folders += [
            os.path.join(folder, "lib")
            for folder in (spec.submodule_search_locations if spec else None) or ()
        ]
    for folder in folders:
        yield from (os.path.join(folder, name) for name in NAMES)


_once = Once()


def _open() -> HipDriver:
    library = open_library()
    try:
        driver = HipDriver(library)
        count = driver.device_count()  # first: hipInit of HIP 5 has another error without a device
        driver.initialize()
    except DriverError as error:
        if error.name == _NO_DEVICE:
            raise _no_device(str(error)) from error
        raise DeviceNotFoundError(
            f"no ROCm device can be used: the runtime does not start: {error}. Run rocminfo to test it",
            kind="rocm",
        ) from error
    if not count:
        raise _no_device("hipGetDeviceCount returns 0")
    open_driver("rocm")  # not before: a runtime that does not start is not open in a forked child
    return driver


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


class RocmDevice(DriverDevice):
    """A ROCm device. Its number is that of HIP and of the other libraries of the process."""

    api = HIP
    kind = HIP.kind
    vendor = "AMD"
    dlpack_type = 10  # kDLROCM
    driver: HipDriver

    @property
    def subgroup_sizes(self) -> Sequence[int]:  # type: ignore[override]
        """The lanes of a wave in HIP: HIP runs no code object of the other size, also where the
        hardware has both.
        """
        return (self.limits["warp_size"],)


def devices() -> list[RocmDevice]:
    """Return all devices in the driver's order, always the same objects. If there is none, the next
    call searches again.

    Raises
    ------
    DeviceNotFoundError
        There is no runtime or no device.
    """
    return list_devices(_once, _open, RocmDevice, "rocminfo")
