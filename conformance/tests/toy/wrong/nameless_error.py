"""ArgumentError does not name the argument."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R34-invalid",)
REASON = "'axpy' with a str as argument 1: the argument in the error: expected 'x', got ''"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)

        def call(*args, **keywords):
            try:
                return function(*args, **keywords)
            except devmod.ArgumentError as error:
                raise devmod.ArgumentError(f"{name!r} was called wrongly", kind=error.kind) from None

        return call


create, load_from_bytes, load_from_file = entries(Wrong)
