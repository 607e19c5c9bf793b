"""It keeps no imports."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R21",)
REASON = "the imports are () after one was added"


class Wrong(ToyModule):
    imports = ()


create, load_from_bytes, load_from_file = entries(Wrong)
