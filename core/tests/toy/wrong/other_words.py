"""An unknown function is refused without saying which there are."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R25-unknown",)
REASON = (
    "what get_function('no_such_function') of a created module says (devmod.backend.function_not_found makes it) is 'no such function', "
    "and must be \"the toy module has no function 'no_such_function'; it has: 'negate', 'axpy'\""
)


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        if name not in self.functions:
            raise devmod.FunctionNotFoundError("no such function", kind="toy", function=name)
        return super().get_function(name, query_imports)


create, load_from_bytes, load_from_file = entries(Wrong)
