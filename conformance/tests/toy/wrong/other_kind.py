"""The kind of a module differs from its entry."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R11", "R18")
REASON = (
    "PluginError: devmod.create.toy is broken: devmod-toy 1.0 returned a module of kind 'toy2', not 'toy'. "
    "Report it to its publisher, or uninstall it"
)


class Wrong(ToyModule):
    kind = "toy2"


create, load_from_bytes, load_from_file = entries(Wrong)
