"""Creating a module builds it."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R30-build",)
REASON = "the number of builds before the first get_function: expected 0, got 2"


class Wrong(ToyModule):
    def __init__(self, *args, **keywords):
        super().__init__(*args, **keywords)
        self.payload()


create, load_from_bytes, load_from_file = entries(Wrong)
