"""The compiler writes the date that a program prints."""

import subprocess

from devmod_toy._compile import payload, target

ROWS = ("R38-compiled",)
REASON = "the compiler's output differs: from byte … on, …, in another time zone"
TARGET = target("compiles_zone:compile")


def compile(request):
    return payload(request, subprocess.check_output(["date", "+%F"], text=True).strip())
