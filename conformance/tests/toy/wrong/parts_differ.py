"""wire_parts and save_to_bytes differ."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R17", "R24-stored")
REASON = "the joined wire_parts: expected 316 bytes, got 320; they differ from byte …"


class Wrong(ToyModule):
    def wire_parts(self):
        return (b"TOY1", *super().wire_parts())

    def save_to_bytes(self):
        return b"".join(super().wire_parts())


create, load_from_bytes, load_from_file = entries(Wrong)
