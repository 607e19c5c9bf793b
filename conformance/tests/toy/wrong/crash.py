"""Damaged bytes end the process."""

import os
import signal

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

import devmod

ROWS = ("R19-refused",)
REASON = "loading damaged bytes (fmt is None): the process ends with signal 11"


def load_from_bytes(data):
    try:
        return ToyModule.from_wire(TARGET, data)
    except devmod.FormatError:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
        raise
