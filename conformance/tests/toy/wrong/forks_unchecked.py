"""It calls open_driver, and its devices do not call check_driver."""

from devmod_toy._device import ToyDevice, driver

from devmod_runtime import open_driver

ROWS = ("R37-forks",)
REASON = "Device.empty, in a child of a process that has used the backend: expected LaunchError, but no error was raised; call devmod_runtime.check_driver there"
_DEVICES = []


def devices():
    if not _DEVICES:
        open_driver("toy")
        _DEVICES.extend(ToyDevice(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
