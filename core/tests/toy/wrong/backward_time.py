"""Its events tell the time backwards."""

from devmod_toy._device import ToyDevice, ToyEvent, ToyStream, driver

ROWS = ("R37-stream",)
REASON = "a launch took -… seconds by its events"


class Event(ToyEvent):
    def elapsed(self, earlier):
        return -super().elapsed(earlier) - 1e-9


class Stream(ToyStream):
    def record(self):
        return Event()


class Device(ToyDevice):
    def stream(self):
        return Stream(self)


_MADE = []


def devices():
    if not _MADE:
        _MADE.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _MADE
