"""create raises for one of the formats."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

import devmod

ROWS = ("R14",)
REASON = "FormatError: toybin is not supported"


def create(code, fmt, fmap, source):
    if fmt == "toybin":
        raise devmod.FormatError("toybin is not supported", kind="toy")
    return ToyModule(TARGET, fmt, fmap, code, source)
