"""A slice of an array is a copy."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-views",)
REASON = "a write to a slice does not change exactly its part of the array"


class Device(ToyDevice):
    def slice(self, memory, offset, nbytes):
        return bytearray(memory[offset : offset + nbytes])


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
