"""The build reads the files that a source names."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R30-files",)
REASON = "a source with '#include \"/…/named.h\"': CompileError if the file is missing, and it builds if it exists"


class Wrong(ToyModule):
    def payload(self, *key):
        fmt, code = super().payload(*key)
        lines = bytes(code).decode("utf-8", "replace").split("\n")
        for line in lines:
            if line.startswith("#include "):
                try:
                    open(line[len('#include "') : -1]).close()
                except OSError as error:
                    raise devmod.CompileError(str(error), kind="toy") from error
        return fmt, "\n".join(line for line in lines if not line.startswith("#")).encode()


create, load_from_bytes, load_from_file = entries(Wrong)
