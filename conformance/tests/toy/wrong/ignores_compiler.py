"""The replaced compiler is not called."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R31-once", "R30-build", "R31-used")
REASON = "the inputs of the replaced compiler after two get_function of each name: expected [b'toy 1\\naxpy\\nnegate\\n'], got []"


class Wrong(ToyModule):
    def payload(self, entry=""):
        return self.format, self.code


create, load_from_bytes, load_from_file = entries(Wrong)
