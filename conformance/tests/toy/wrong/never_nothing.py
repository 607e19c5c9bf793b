"""A grid of 0 launches one block."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R37-nothing",)
REASON = "'axpy' launched with grid=0: argument 2 is wrong in 16 of 50 elements; at 0: expected …, got …"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)
        return lambda *args, grid=None, **keywords: function(*args, grid=1 if grid == 0 else grid, **keywords)


create, load_from_bytes, load_from_file = entries(Wrong)
