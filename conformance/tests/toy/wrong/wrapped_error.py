"""The error of a compiler is replaced."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R32-failure",)
REASON = "the error of a build: expected it unchanged, got RuntimeError: the build failed"


class Wrong(ToyModule):
    def payload(self, entry=""):
        try:
            return super().payload(entry)
        except devmod.DevmodError:
            raise
        except Exception:
            raise RuntimeError("the build failed") from None


create, load_from_bytes, load_from_file = entries(Wrong)
