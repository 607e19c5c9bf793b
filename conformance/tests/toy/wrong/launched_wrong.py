"""An array of another type is converted."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R34-invalid",)
REASON = "'axpy' with an array of another type as argument 1: expected ArgumentError, but the kernel was launched"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)

        def call(*args, **keywords):
            args = [each.astype("float32") if getattr(each, "dtype", "") == "float64" else each for each in args]
            return function(*args, **keywords)

        return call


create, load_from_bytes, load_from_file = entries(Wrong)
