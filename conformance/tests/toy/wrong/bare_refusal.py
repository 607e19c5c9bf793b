"""An invalid payload raises Python's ValueError."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R40-refused",)
REASON = "get_function of an invalid payload: expected DevmodError, got ValueError: bad magic"


class Wrong(ToyModule):
    def launcher(self, name, info):
        try:
            return super().launcher(name, info)
        except (devmod.FormatError, devmod.CompileError):
            raise ValueError("bad magic") from None


create, load_from_bytes, load_from_file = entries(Wrong)
