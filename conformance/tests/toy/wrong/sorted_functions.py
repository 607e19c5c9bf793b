"""create sorts the functions."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R12", "R18", "R23-same-kind")
REASON = "the function names of a created module: expected ['negate', 'axpy'], got ['axpy', 'negate']"


def create(code, fmt, fmap, source):
    return ToyModule(TARGET, fmt, dict(sorted(fmap.items())), code, source)
