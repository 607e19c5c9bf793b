"""It sorts its functions."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R12", "R18", "R23-same-kind")
REASON = "the names of the functions of a created module is ['axpy', 'negate'], and must be ['negate', 'axpy']"


def create(code, fmt, fmap, source):
    return ToyModule(TARGET, fmt, dict(sorted(fmap.items())), code, source)
