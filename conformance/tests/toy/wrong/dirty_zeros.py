"""Device.zeros does not clear memory that was used before."""

from devmod_toy._device import ToyDevice, devices_of

ROWS = ("R37-zeros",)
REASON = "Device.zeros((7,), 'float32') has other values than zero"


class Device(ToyDevice):
    def allocate(self, nbytes):
        return bytearray(b"\1") * nbytes

    def clear(self, memory, nbytes, stream):
        pass


devices = devices_of(Device)
