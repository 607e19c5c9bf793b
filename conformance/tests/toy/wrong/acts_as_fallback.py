"""get_function raises RuntimeNotLinkedError, although this is the runtime."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R24-runs",)
REASON = "a created module behaves as a fallback: install the runtime"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        self.find_function(name)
        raise devmod.RuntimeNotLinkedError("install the runtime", kind="toy")


create, load_from_bytes, load_from_file = entries(Wrong)
