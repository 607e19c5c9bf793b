"""Events measure negative times."""

from devmod_toy._device import ToyDevice, ToyEvent, ToyStream, devices_of

ROWS = ("R37-stream",)
REASON = "the seconds between two events: expected 0 or more, got -…"


class Event(ToyEvent):
    def elapsed(self, earlier):
        return -super().elapsed(earlier) - 1e-9


class Stream(ToyStream):
    def record(self):
        return Event()


class Device(ToyDevice):
    stream_type = Stream


devices = devices_of(Device)
