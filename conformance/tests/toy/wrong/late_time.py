"""The time of an event comes from another queue, which reaches it later."""

import time

from devmod_toy._device import ToyDevice, ToyEvent, ToyStream, driver

ROWS = ("R37-elapsed",)
REASON = "the seconds of 1 × 'wait' between two events: expected … to …, got …"


class Event(ToyEvent):
    def __init__(self):
        self.time = None

    def synchronize(self):
        self.time = self.time or time.monotonic()

    def elapsed(self, earlier):
        earlier.synchronize()
        self.synchronize()
        return self.time - earlier.time


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
