"""write_to_file overwrites the metadata of another module."""

import contextlib
import os

from devmod_toy._module import ToyModule, entries

ROWS = ("R22-clash",)
REASON = "write_to_file over the metadata of other functions: expected FormatError, but no error was raised"


class Wrong(ToyModule):
    def write_to_file(self, path):
        with contextlib.suppress(OSError):
            os.remove(os.path.splitext(path)[0] + ".tvm_meta.json")
        super().write_to_file(path)


create, load_from_bytes, load_from_file = entries(Wrong)
