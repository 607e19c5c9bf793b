"""An image that no device has is made."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-images",)
REASON = "an image that is wider than any device supports: expected ArgumentError, but no error was raised"


class Device(ToyDevice):
    def create_image(self, image):
        return bytearray(min(image.nbytes, 1 << 20))


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
