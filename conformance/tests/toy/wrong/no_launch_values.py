"""Launch values after the arguments raise ArgumentError."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R35-values",)
REASON = "ArgumentError: 6 arguments for 4"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)

        def call(*args, **keywords):
            if len(args) != len(function.info.arg_types):
                raise devmod.ArgumentError(f"{len(args)} arguments for {len(function.info.arg_types)}")
            return function(*args, **keywords)

        return call


create, load_from_bytes, load_from_file = entries(Wrong)
