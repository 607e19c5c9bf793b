"""The package imports the driver."""

import toydriver
from devmod_toy import create as create

ROWS = ("R6", "R23-lazy")
REASON = "the look-up of devmod.create imports toydriver"
assert toydriver
