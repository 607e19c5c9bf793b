"""Functions take arguments by position only."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R34-names",)
REASON = "TypeError: …unexpected keyword argument '…'"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)
        return lambda *args, grid=None, block=None, stream=None: function(*args, grid=grid, block=block, stream=stream)


create, load_from_bytes, load_from_file = entries(Wrong)
