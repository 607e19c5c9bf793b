"""The compiler writes the user's home folder."""

import os

from devmod_toy._compile import payload, target

ROWS = ("R38-compiled",)
REASON = "the compiler's output differs: from byte … on, …, for another user"
TARGET = target("compiles_home:compile")


def compile(request):
    return payload(request, os.path.expanduser("~"))
