"""The first row of an image is the last of its NumPy array."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-sampled", "R37-written")
REASON = (
    "'sample' of an image of type 2d and format rgba8unorm with <Sampler filter='nearest', address='clamp', …>: argument 1 is wrong in …"
)


def _turned(data, image):
    row = len(data) // image.extent[1]
    return b"".join(bytes(data[at : at + row]) for at in range(len(data) - row, -1, -row))


class Device(ToyDevice):
    def write_image(self, image, data, stream):
        super().write_image(image, _turned(data, image), stream)

    def read_image(self, image, out, stream):
        out[:] = _turned(image.handle, image)


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
