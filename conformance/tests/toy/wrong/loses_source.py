"""create drops the source."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R13", "R26")
REASON = "the source: expected {'listing': '; a listing'}, got {}"


def create(code, fmt, fmap, source):
    return ToyModule(TARGET, fmt, fmap, code)
