"""It makes its devices anew each time."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R33-devices",)
REASON = "devmod.device('toy', 0) gives another object each time"


def devices():
    return [ToyDevice(index, name) for index, name in enumerate(driver().DEVICES)]
