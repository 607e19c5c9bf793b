"""The time of an event is the end of the last launch before it, also if the device was idle since."""

from devmod_toy._device import ToyDevice, ToyEvent, ToyStream, driver
from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule, entries

ROWS = ("R37-elapsed",)
REASON = "the seconds of two events of an idle device: expected … to …, got 0.0"
_LAST = []


class Kernel(ToyKernel):
    def caller(self, stream, shape):
        run = super().caller(stream, shape)

        def call(values):
            run(values)
            _LAST[:] = [ToyEvent()]

        return call


class Stream(ToyStream):
    def record(self):
        return _LAST[0] if _LAST else _START


class Launcher(ToyLauncher):
    kernel_type = Kernel


class Wrong(ToyModule):
    launcher_type = Launcher


_START = ToyEvent()
create, load_from_bytes, load_from_file = entries(Wrong)


class Device(ToyDevice):
    def stream(self):
        return Stream(self)


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
