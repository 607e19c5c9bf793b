"""A device has every feature and every size of subgroups that it is asked for."""

from devmod_toy._device import ToyDevice, driver
from devmod_toy._module import ToyLauncher, ToyModule, entries

ROWS = ("R40-needs",)
REASON = "'axpy' with {'needs': ['no_such_need']}: expected DeviceNotFoundError, but it was launched"


class _Everything(frozenset):
    def __contains__(self, need):
        return True


class Device(ToyDevice):
    features = _Everything(("fp64",))


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES


class Launcher(ToyLauncher):
    def default_device(self):
        return devices()[0]


class Wrong(ToyModule):
    launcher_type = Launcher


create, load_from_bytes, load_from_file = entries(Wrong)
