"""The compiler writes the current folder."""

import os

from devmod_toy._compile import payload, target

ROWS = ("R38-compiled",)
REASON = "the compiler's output differs: from byte … on, …, in another folder"
TARGET = target("compiles_folder:compile")


def compile(request):
    return payload(request, os.getcwd())
