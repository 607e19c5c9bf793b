"""A slice of an array is a copy."""

from devmod_toy._device import ToyDevice, devices_of

ROWS = ("R37-views",)
REASON = "a write to a slice does not change exactly its part of the array"


class Device(ToyDevice):
    def slice(self, memory, offset, nbytes):
        return bytearray(memory[offset : offset + nbytes])


devices = devices_of(Device)
