"""A copy between arrays copies half of the bytes."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-copies",)
REASON = "copy_from of an array of float32 has other values"


class Device(ToyDevice):
    def copy(self, source, target, nbytes, stream):
        super().copy(source, target, nbytes // 2, stream)


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
