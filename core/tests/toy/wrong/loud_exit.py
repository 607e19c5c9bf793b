"""It fails when Python ends."""

import atexit

from devmod_toy import create as create

ROWS = ("R8",)
REASON = "the end of a process that used the backend is not quiet: …"


def close():
    raise RuntimeError("the context is gone already")


atexit.register(close)
