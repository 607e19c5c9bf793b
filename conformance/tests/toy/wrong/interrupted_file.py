"""A copy leaves its files open if an interrupt comes."""

import os
import time

from devmod_toy._device import ToyDevice, devices_of

ROWS = ("R37-interrupts",)
REASON = "after KeyboardInterrupt at random moments, … more open files are left. An interrupt may come after every call in Python: …"


class Device(ToyDevice):
    def write(self, memory, data, stream):
        files = os.pipe()
        time.sleep(0.005)
        super().write(memory, data, stream)
        for each in files:
            os.close(each)


devices = devices_of(Device)
