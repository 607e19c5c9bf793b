"""Events measure negative times."""

from devmod_toy._device import ToyDevice, ToyEvent, ToyStream, driver

ROWS = ("R37-stream",)
REASON = "the seconds between two events: expected 0 or more, got -…"


class Event(ToyEvent):
    def elapsed(self, earlier):
        return -super().elapsed(earlier) - 1e-9


class Stream(ToyStream):
    def record(self):
        return Event()


class Device(ToyDevice):
    def stream(self):
        return Stream(self)


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
