"""create starts a program."""

import subprocess
import sys

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R39",)
REASON = "create does subprocess.Popen(…"


def create(code, fmt, fmap, source):
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)
    return ToyModule(TARGET, fmt, fmap, code, source)
