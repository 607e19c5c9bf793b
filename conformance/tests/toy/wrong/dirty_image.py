"""A new image has the contents of freed memory."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-images",)
REASON = "an image of rgba8unorm with the shape (7, 5) has other values than zero"


class Device(ToyDevice):
    def create_image(self, image):
        return bytearray(b"\1") * len(super().create_image(image))


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
