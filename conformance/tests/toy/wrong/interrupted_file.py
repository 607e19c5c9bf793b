"""A copy leaves its files open if an interrupt comes."""

import os
import time

from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-interrupts",)
REASON = "after KeyboardInterrupt at random moments, … more open files are left. An interrupt may come after every call in Python: …"


class Device(ToyDevice):
    def write(self, memory, data, stream):
        files = os.pipe()
        time.sleep(0.005)
        super().write(memory, data, stream)
        for each in files:
            os.close(each)


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES
