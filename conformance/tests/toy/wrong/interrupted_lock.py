"""A copy leaves its lock held if an interrupt comes."""

import os
import threading
import time

from devmod_toy._conformance import ToyConformance
from devmod_toy._device import ToyDevice, driver

ROWS = ("R37-interrupts",)
REASON = "after KeyboardInterrupt at random moments a use of the backend hangs. An interrupt may come after every call in Python: …"
_LOCK = threading.Lock()


class Device(ToyDevice):
    def write(self, memory, data, stream):
        _LOCK.acquire()
        time.sleep(0.005)
        super().write(memory, data, stream)
        _LOCK.release()


_DEVICES = []


def devices():
    if not _DEVICES:
        _DEVICES.extend(Device(index, name) for index, name in enumerate(driver().DEVICES))
    return _DEVICES


class ShortTimeout(ToyConformance):
    timeout = float(os.environ.get("TOY_TIMEOUT", "2"))
