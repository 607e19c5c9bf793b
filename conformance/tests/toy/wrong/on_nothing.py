"""Function.on returns the function itself."""

from devmod_toy._module import ToyModule, entries

from devmod import Function

ROWS = ("R33-on",)
REASON = (
    "'axpy' on toy device 0 (toy number 0) with an array of toy device 1 (toy number 1): expected ArgumentError, but no error was raised"
)


class Anywhere(Function):
    def on(self, device):
        return self


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)
        return Anywhere(name, function.info, self.launcher(name, function.info))


create, load_from_bytes, load_from_file = entries(Wrong)
