"""It puts an error of its own in the place of the compiler's."""

from devmod_toy._module import ToyModule, entries

import devmod

ROWS = ("R32-failure",)
REASON = "what a build raises does not come through unchanged: RuntimeError: the build failed"


class Wrong(ToyModule):
    def payload(self, entry=""):
        try:
            return super().payload(entry)
        except devmod.DevmodError:
            raise
        except Exception:
            raise RuntimeError("the build failed") from None


create, load_from_bytes, load_from_file = entries(Wrong)
