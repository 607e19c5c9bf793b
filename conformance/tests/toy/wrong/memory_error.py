"""An array that is too large raises Python's MemoryError."""

from devmod_toy._device import ToyDevice, devices_of

ROWS = ("R37-memory",)
REASON = "an array of 72057594037927936 bytes: expected DeviceMemoryError, got MemoryError…"


class Device(ToyDevice):
    def allocate(self, nbytes):
        return bytearray(nbytes)


devices = devices_of(Device)
