"""A call with threads= launches enough blocks for any array."""

from devmod_toy._module import ToyModule, entries

from devmod import Function

ROWS = ("R34-part",)
REASON = "'axpy' with threads=(32, 1, 1), compared with grid=(2, 1, 1): argument 2 is wrong in 8 of 50 elements; at 32: expected …, got …"


class Ignores(Function):
    def __call__(self, *args, threads=None, **others):
        if threads is not None:
            self.launch_config(threads=threads, **{name: others[name] for name in ("grid", "block") if name in others})
            others = {"grid": 100} | others
        return super().__call__(*args, **others)


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        function = super().get_function(name, query_imports)
        return Ignores(name, function.info, self.launcher(name, function.info))


create, load_from_bytes, load_from_file = entries(Wrong)
