"""devices() creates new objects at each call."""

from devmod_toy._device import ToyDevice, driver

ROWS = ("R33-devices",)
REASON = "devmod.device('toy', 0) returns another object at each call"


def devices():
    return [ToyDevice(index, name) for index, name in enumerate(driver().DEVICES)]
