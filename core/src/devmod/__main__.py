"""The program `devmod`, and `python -m devmod`."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the command line. Ctrl-C while it is imported has no traceback either."""
    gc.set_threshold(100_000)  # imports make many objects, which stay
    try:
        from devmod._cli import main

        return main()
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
