"""import_module has no effect."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R21",)
REASON = "the imports after import_module: expected the imported module, got ()"


class Wrong(ToyModule):
    imports = ()


create, load_from_bytes, load_from_file = entries(Wrong)
