"""It makes modules of one of its formats only."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

import devmod

ROWS = ("R14",)
REASON = "FormatError: no toybin here"


def create(code, fmt, fmap, source):
    if fmt == "toybin":
        raise devmod.FormatError("no toybin here", kind="toy")
    return ToyModule(TARGET, fmt, fmap, code, source)
