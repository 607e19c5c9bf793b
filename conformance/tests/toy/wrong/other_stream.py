"""The body of a stream does not change the current stream."""

from devmod_toy._device import ToyDevice, ToyStream, devices_of

ROWS = ("R37-current",)
REASON = "Device.current_stream is not the stream of the innermost body"


class Stream(ToyStream):
    def __enter__(self):
        return self

    def __exit__(self, *details):
        pass


class Device(ToyDevice):
    stream_type = Stream


devices = devices_of(Device)
