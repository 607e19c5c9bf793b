"""A failed build gives a function that does nothing."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R32-failure", "R40-refused")
REASON = "get_function returns a function although its build failed"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        try:
            return super().get_function(name, query_imports)
        except (devmod.FunctionNotFoundError, devmod.DeviceNotFoundError):
            raise
        except Exception:
            return lambda *args, **keywords: None


create, load_from_bytes, load_from_file = entries(Wrong)
