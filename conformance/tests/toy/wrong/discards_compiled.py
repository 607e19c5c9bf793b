"""The output of the replaced compiler is discarded."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R31-used",)
REASON = "CompileError: the toy payload does not begin with the line 'toy 1'"


class Wrong(ToyModule):
    def payload(self, entry=""):
        super().payload(entry)
        return self.format, self.code


create, load_from_bytes, load_from_file = entries(Wrong)
