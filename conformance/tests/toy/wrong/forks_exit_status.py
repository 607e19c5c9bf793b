"""A handler at exit ends a forked child with another status."""

import atexit
import os

from devmod_toy import create as create

ROWS = ("R37-forks",)
REASON = "a child of a process that has used the backend: expected exit status 87, but it ends with exit status 3"
_PARENT = os.getpid()


def close():
    if os.getpid() != _PARENT:
        os._exit(3)


atexit.register(close)
