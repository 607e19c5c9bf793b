"""Array.numpy returns the values before the launch."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-device", "R33-several")
REASON = "'axpy' with device arrays: argument 2 is wrong in 40 of 50 elements; at 0: expected …, got …"
_DEVICES = []


class Device(ToyDevice):
    def write(self, memory, data, stream):
        super().write(memory, data, stream)
        self.__dict__.setdefault("kept", []).append((memory, bytes(memory)))

    def read(self, memory, out, stream):
        for each, data in self.__dict__.get("kept", ()):
            if each is memory:
                memory = data
        super().read(memory, out, stream)


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
