"""A payload that it cannot read is a ValueError of Python's."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R40-refused",)
REASON = "get_function of a payload that is none raises ValueError and not DevmodError: bad magic"


class Wrong(ToyModule):
    def launcher(self, name, info):
        try:
            return super().launcher(name, info)
        except (devmod.FormatError, devmod.CompileError):
            raise ValueError("bad magic") from None


create, load_from_bytes, load_from_file = entries(Wrong)
