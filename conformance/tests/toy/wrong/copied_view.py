"""Device.view returns a copy of the memory."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-dlpack",)
REASON = "the view of an array's memory does not share it"


class Device(ToyDevice):
    def view(self, memory):
        return memoryview(bytearray(memory))


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
