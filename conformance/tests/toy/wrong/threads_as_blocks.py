"""threads= counts blocks."""

from devmod_toy._module import ToyModule, entries

from devmod import Function

ROWS = ("R34-threads",)
REASON = "the grid and the block of 'axpy' with threads=(64, 1, 1): expected ((4, 1, 1), (16, 1, 1)), got ((64, 1, 1), (16, 1, 1))"


class Blocks(Function):
    def launch_config(self, *, threads=None, **others):
        return super().launch_config(grid=threads, **others)


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)
        return Blocks(name, function.info, self.launcher(name, function.info))


create, load_from_bytes, load_from_file = entries(Wrong)
