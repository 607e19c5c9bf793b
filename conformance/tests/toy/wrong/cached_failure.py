"""A failed build is cached."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R32-failure",)
REASON = "a failed build is cached: the next get_function does not build again"


class Wrong(ToyModule):
    def get_function(self, name, query_imports=False):
        error = self.__dict__.get("failed")
        if error:
            raise error
        try:
            return super().get_function(name, query_imports)
        except Exception as error:
            if name in self.functions:
                self.failed = error
            raise


create, load_from_bytes, load_from_file = entries(Wrong)
