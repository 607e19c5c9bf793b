"""The program `devmod`, and `python -m devmod`."""

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
        gc.freeze()  # the end of the interpreter collects several times, and each visits all objects


if __name__ == "__main__":
    sys.exit(main())
