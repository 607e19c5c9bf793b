"""write_to_file writes other bytes than the payload."""

from devmod_toy._module import ToyModule, entries

ROWS = ("R22-round",)
REASON = "the file *.toy of the backend's module and of the fallback: expected … bytes, got …; they differ from byte …"


class Wrong(ToyModule):
    def write_to_file(self, path):
        super().write_to_file(path)
        with open(path, "r+b") as file:
            data = file.read()
            file.seek(0)
            file.write(b"\n" + data)


create, load_from_bytes, load_from_file = entries(Wrong)
