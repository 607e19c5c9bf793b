"""Calls return the number of their arguments."""

from devmod_toy._module import ToyModule, entries

from devmod import Function

ROWS = ("R37-result",)
REASON = "'axpy' with host arrays: expected the result None, got 4"


class Counting(Function):
    def __call__(self, *args, **named):
        super().__call__(*args, **named)
        return len(args)


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)
        return Counting(name, function.info, self.launcher(name, function.info))


create, load_from_bytes, load_from_file = entries(Wrong)
