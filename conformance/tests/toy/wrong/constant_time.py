"""The time between two events is a constant."""

from devmod_toy._device import ToyDevice, ToyEvent, ToyStream, driver

ROWS = ("R37-elapsed",)
REASON = "the seconds of two events of an idle device: expected … to …, got 0.001"


class Event(ToyEvent):
    def elapsed(self, earlier):
        return 0.001


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
