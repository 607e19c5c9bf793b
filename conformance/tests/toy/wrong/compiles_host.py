"""The compiler writes the host name."""

import platform

from devmod_toy._compile import payload, target

ROWS = ("R38-compiled",)
REASON = "the compiler's output differs: from byte … on, …, at another time or with another host name"
TARGET = target("compiles_host:compile")


def compile(request):
    return payload(request, platform.node())
