"""A module saves one byte more than the fallback."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R18", "R17", "R24-stored")
REASON = "the saved bytes of the backend's module and of the fallback: expected 316 bytes, got 317; they differ from byte 316 on: expected b'', got b'\\x00'"


class Wrong(ToyModule):
    def wire_parts(self):
        return (*super().wire_parts(), b"\0")


create, load_from_bytes, load_from_file = entries(Wrong)
