"""get_global returns None for unknown names, and wrong values."""

from devmod_toy._device import devices
from devmod_toy._module import ToyModule, entries

ROWS = ("R20-unknown", "R20-values")
REASON = "get_global('no_such_function') of a created module: expected FunctionNotFoundError, but no error was raised"


class Wrong(ToyModule):
    def get_global(self, name):
        return devices()[0].empty((4,), "int32") if name == "weights" else None


create, load_from_bytes, load_from_file = entries(Wrong)
