"""The property_mask lacks the bit for running."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R24-runs",)
REASON = "the property_mask of a created module: expected the bits 1 (can be saved) and 2 (can run), got 1"


class Wrong(ToyModule):
    property_mask = 1


create, load_from_bytes, load_from_file = entries(Wrong)
