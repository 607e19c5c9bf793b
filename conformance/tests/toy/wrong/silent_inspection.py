"""inspect_source returns no text."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R26",)
REASON = "inspect_source(''): expected 'the toy of a sample', got ''"


class Wrong(ToyModule):
    def inspect_source(self, format=""):
        return ""


create, load_from_bytes, load_from_file = entries(Wrong)
