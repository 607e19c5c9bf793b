"""It shows no source."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R26",)
REASON = "inspect_source('') is '', and must be 'toy 1\\naxpy\\nnegate\\n'"


class Wrong(ToyModule):
    def inspect_source(self, format=""):
        return ""


create, load_from_bytes, load_from_file = entries(Wrong)
