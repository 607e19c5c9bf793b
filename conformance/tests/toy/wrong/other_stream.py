"""The body of a stream does not change the current stream."""

from devmod_toy._device import ToyDevice, ToyStream, driver

ROWS = ("R37-current",)
REASON = "Device.current_stream is not the stream of the innermost body"


class Stream(ToyStream):
    def __enter__(self):
        return self

    def __exit__(self, *details):
        pass


class Device(ToyDevice):
    def stream(self):
        return Stream(self)


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
