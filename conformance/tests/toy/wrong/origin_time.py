"""The origin contains the time."""

import time

from devmod_toy._compile import payload, target

ROWS = ("R38-compiled",)
REASON = "the compiler's origin differs: …, at another time or with another host name"
TARGET = target("origin_time:compile")


def compile(request):
    return payload(request, extra={"time": time.ctime()})
