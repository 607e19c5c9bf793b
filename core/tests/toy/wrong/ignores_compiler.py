"""It does not ask the replaced compiler."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R31-once", "R30", "R31-used")
REASON = "what the replaced compiler was given, all functions asked for twice, is [], and must be [b'toy 1\\naxpy\\nnegate\\n']"


class Wrong(ToyModule):
    def payload(self, entry=""):
        return self.format, self.code


create, load_from_bytes, load_from_file = entries(Wrong)
