"""Its bytes say whether the driver is there."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R38", "R23-lazy")
REASON = "sample 1 is saved as other bytes without the driver: what a module saves depends on the host"


def create(code, fmt, fmap, source):
    try:
        import toydriver

        assert toydriver
    except ImportError:
        code = bytes(code) + b"\n"
    return ToyModule(TARGET, fmt, fmap, code, source)
