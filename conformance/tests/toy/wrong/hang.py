"""load_from_bytes does not return for damaged bytes."""

import os
import time

from devmod_toy import TARGET
from devmod_toy._conformance import ToyConformance
from devmod_toy._module import ToyModule

import devmod

ROWS = ("R19-refused",)
REASON = "loading damaged bytes (fmt is None): the process does not end"


def load_from_bytes(data):
    try:
        return ToyModule.from_wire(TARGET, data)
    except devmod.FormatError:
        time.sleep(1000)
        raise


class ShortTimeout(ToyConformance):
    timeout = float(os.environ.get("TOY_TIMEOUT", "2"))
