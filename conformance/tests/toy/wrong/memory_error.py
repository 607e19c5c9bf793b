"""An array that is too large raises Python's MemoryError."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-memory",)
REASON = "an array of 72057594037927936 bytes: expected DeviceMemoryError, got MemoryError…"


class Device(ToyDevice):
    def allocate(self, nbytes):
        return bytearray(nbytes)


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
