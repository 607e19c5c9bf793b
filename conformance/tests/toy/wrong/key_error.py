"""An unknown function name raises KeyError."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R25-unknown", "R23-lazy")
REASON = "get_function('no_such_function') of a created module: expected FunctionNotFoundError, got KeyError: 'no_such_function'"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        self.functions[name]
        return super().get_function(name, query_imports)


create, load_from_bytes, load_from_file = entries(Wrong)
