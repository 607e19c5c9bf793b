"""get_function checks for a function and then builds it without a lock, so two threads build twice."""

from devmod_toy._module import ToyModule, entries

from devmod import Function, Target
from devmod_runtime import run_compiler

ROWS = ("R32-once", "R31-once")
REASON = "the number of builds with 8 threads: expected 1, got …"


class Wrong(ToyModule):
    def payload(self, entry=""):
        replaced = run_compiler(self.code, Target("toy")) if self.format == "toy" else None
        return replaced or (self.format, self.code)

    def get_function(self, name, query_imports=False):
        _, info = self.find_function(name)
        made = self.__dict__.setdefault("made", {})
        if name not in made:
            function = Function(name, info, self.launcher(name, info))
            function.open()
            made[name] = function
        return made[name]


create, load_from_bytes, load_from_file = entries(Wrong)
