"""It forgets the source that it was given."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R13", "R26")
REASON = "the source is {}, and must be {'listing': '; a listing that was given'}"


def create(code, fmt, fmap, source):
    return ToyModule(TARGET, fmt, fmap, code)
