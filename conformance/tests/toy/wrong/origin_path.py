"""The origin contains the current folder."""

import os

from devmod_toy._compile import payload, target

ROWS = ("R42", "R38-compiled")
REASON = "the origin contains the path …"
TARGET = target("origin_path:compile")


def compile(request):
    return payload(request, options=[f"-I{os.getcwd()}"])
