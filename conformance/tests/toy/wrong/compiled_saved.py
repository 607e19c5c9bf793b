"""After get_function, a module saves the built payload."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R19-used",)
REASON = "the saved bytes after get_function: expected 316 bytes, got 328; they differ from byte …"


class Wrong(ToyModule):
    def launcher(self, name, info):
        result = super().launcher(name, info)
        self._code = bytes(self.code) + b"# sm_9"
        return result


create, load_from_bytes, load_from_file = entries(Wrong)
