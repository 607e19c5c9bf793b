"""The error for an unknown function name has not core's text."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R25-unknown",)
REASON = "the error of get_function('no_such_function') of a created module (use devmod.backend.function_not_found): expected \"the toy module has no function 'no_such_function'; it has: 'negate', 'axpy'\", got 'no such function'"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        if name not in self.functions:
            raise devmod.FunctionNotFoundError("no such function", kind="toy", function=name)
        return super().get_function(name, query_imports)


create, load_from_bytes, load_from_file = entries(Wrong)
