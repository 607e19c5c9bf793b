"""get_function finds a kernel by its symbol only."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R33-functions",)
REASON = "FunctionNotFoundError: no negative"


class Wrong(ToyModule):
    def launcher(self, name, info):
        if name != info.name:
            raise devmod.FunctionNotFoundError(f"no {name}", kind="toy")
        return super().launcher(name, info)


create, load_from_bytes, load_from_file = entries(Wrong)
