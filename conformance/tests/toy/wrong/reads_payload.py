"""Creating a module parses the payload."""

from devmod_toy._module import ToyModule, entries, kernels

ROWS = ("R40-wraps",)
REASON = "CompileError: the toy payload does not begin with the line 'toy 1'"


class Wrong(ToyModule):
    def __init__(self, *args, **keywords):
        super().__init__(*args, **keywords)
        kernels(self.format, self.code)


create, load_from_bytes, load_from_file = entries(Wrong)
