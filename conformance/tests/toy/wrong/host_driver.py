"""The saved bytes depend on the driver."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R38-saved", "R23-lazy")
REASON = "sample 1 saves other bytes without the driver: the saved bytes must not depend on the host"


def create(code, fmt, fmap, source):
    try:
        import toydriver

        assert toydriver
    except ImportError:
        code = bytes(code) + b"\n"
    return ToyModule(TARGET, fmt, fmap, code, source)
