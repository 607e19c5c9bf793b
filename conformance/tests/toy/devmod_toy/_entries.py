"""The toy's entry points."""

from __future__ import annotations

from devmod_toy import TARGET
from devmod_toy._wrong import become_wrong


def create(code, fmt, fmap, source):
    from devmod_toy._module import ToyModule

    return ToyModule(TARGET, fmt, fmap, code, source)


def load_from_bytes(data):
    from devmod_toy._module import ToyModule

    return ToyModule.from_wire(TARGET, data)


def load_from_file(path, fmt):
    from devmod_toy._module import ToyModule

    return ToyModule.from_file(path, fmt)


def devices():
    from devmod_toy._device import devices as found

    return found()


def adopt(handle):
    if type(handle).__module__ != "toydriver":
        return None
    from devmod_toy._device import adopt as adopt_queue

    return adopt_queue(handle)


become_wrong(at_import=True)
