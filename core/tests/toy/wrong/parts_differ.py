"""Its bytes in parts are not its bytes."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R17", "R24-stored")
REASON = "wire_parts, joined: 285 bytes instead of 281, which differ from byte 0 on: b'TOY1\\xa3…"


class Wrong(ToyModule):
    def wire_parts(self):
        return (b"TOY1", *super().wire_parts())

    def save_to_bytes(self):
        return b"".join(super().wire_parts())


create, load_from_bytes, load_from_file = entries(Wrong)
