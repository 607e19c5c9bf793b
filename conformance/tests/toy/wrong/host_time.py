"""The time of an event is the host's at `record`, though the launches before it are only queued."""

from devmod_toy._device import ToyDevice, ToyEvent, ToyStream, driver
from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-elapsed",)
REASON = "the seconds of 1 × 'wait' between two events: expected … to …, got …"
_QUEUE = []


class Kernel(ToyKernel):
    def caller(self, stream, shape):
        run = super().caller(stream, shape)
        return lambda values: _QUEUE.append(lambda: run(values))


class Event(ToyEvent):
    def synchronize(self):
        while _QUEUE:
            _QUEUE.pop(0)()


class Stream(ToyStream):
    def record(self):
        return Event()

    def synchronize(self):
        Event().synchronize()


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)


class Device(ToyDevice):
    def stream(self):
        return Stream(self)


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
