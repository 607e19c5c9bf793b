"""A handler at exit raises."""

import atexit

from devmod_toy import create as create

ROWS = ("R8",)
REASON = "a process that used the backend prints an error at exit: …"


def close():
    raise RuntimeError("the context is gone already")


atexit.register(close)
