"""Device.view returns a copy of the memory."""

from devmod_toy._device import ToyDevice, devices_of

ROWS = ("R37-dlpack",)
REASON = "the view of an array's memory does not share it"


class Device(ToyDevice):
    def view(self, memory):
        return memoryview(bytearray(memory))


devices = devices_of(Device)
