"""load_from_bytes writes a temporary file."""

import tempfile

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

ROWS = ("R5-no-file",)
REASON = "load_from_bytes opens … to write; does tempfile.mkstemp(…"


def load_from_bytes(data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        return ToyModule.from_wire(TARGET, data)
