"""Once it has run, it saves what it made of the payload."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R19-used",)
REASON = "saved after get_function: 293 bytes instead of 281, which differ from byte …"


class Wrong(ToyModule):
    def launcher(self, name, info):
        made = super().launcher(name, info)
        self._code = bytes(self.code) + b"# sm_9"
        return made


create, load_from_bytes, load_from_file = entries(Wrong)
