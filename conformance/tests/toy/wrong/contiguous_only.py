"""Arrays that are not contiguous raise ArgumentError."""

import numpy as np
from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R37-strided",)
REASON = "ArgumentError: not contiguous"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)

        def call(*args, **keywords):
            if any(isinstance(each, np.ndarray) and not each.flags.c_contiguous for each in args):
                raise devmod.ArgumentError("not contiguous")
            return function(*args, **keywords)

        return call


create, load_from_bytes, load_from_file = entries(Wrong)
