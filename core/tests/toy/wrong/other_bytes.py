"""It saves a byte more than the fallback."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R18", "R17", "R24-stored")
REASON = (
    "a real module saves other bytes than the fallback: 282 bytes instead of 281, which differ from byte 281 on: b'\\x00' instead of b''"
)


class Wrong(ToyModule):
    def wire_parts(self):
        return (*super().wire_parts(), b"\0")


create, load_from_bytes, load_from_file = entries(Wrong)
