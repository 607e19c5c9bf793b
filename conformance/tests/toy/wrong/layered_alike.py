"""All layers of an image are the first."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-images",)
REASON = "an image of rgba8unorm with the shape (4, 3) and 3 layers has other values after a copy from the host and back"


class Device(ToyDevice):
    def write_image(self, image, data, stream):
        layers = max(image.layers, 1)
        super().write_image(image, bytes(data[: len(data) // layers]) * layers, stream)


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
