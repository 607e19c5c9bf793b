"""The program `devmod`, and `python -m devmod`."""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _program() -> Callable[[], int] | None:
    """Return the command line of devmod-workbench, or print why it cannot be used."""
    from devmod import _import_wheel
    from devmod._util.text import escape_line
    from devmod.errors import DevmodError

    try:
        program: Callable[[], int] = _import_wheel(
            "devmod_workbench._cli", "the program devmod", "devmod_workbench"
        ).main
    except DevmodError as error:  # it is missing, or of another version than core
        print(escape_line(f"devmod: error: {error}"), file=sys.stderr)
        return None
    return program


def main() -> int:
    """Run the command line. Ctrl-C while it is imported has no traceback either."""
    gc.set_threshold(100_000)  # imports make many objects, which stay
    try:
        program = _program()
        if program is None:
            return 1
        return program()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    finally:
        # The end of the interpreter collects several times, and each visits all objects: a tenth of
        # an unchanged build. Other commands execute programs and compilers in Python, whose
        # libraries (nanobind) report what is not freed.
        if sys.argv[1:2] == ["build"]:
            gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
