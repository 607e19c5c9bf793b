"""The devices have an architecture, and the replaced compiler is not told."""

from devmod_toy._device import ToyDevice, driver
from devmod_toy._module import ToyModule, entries

ROWS = ("R31-once",)
REASON = "Target.current() in the replaced compiler: expected a target of the kind, with the architecture of a device: t1; got toy. Pass…"


class Device(ToyDevice):
    arch = "t1"


MADE = [Device(index, name) for index, name in enumerate(driver().DEVICES)]


def devices():
    return MADE


class Wrong(ToyModule):
    pass


create, load_from_bytes, load_from_file = entries(Wrong)
