"""The program `devmod`, and `python -m devmod`."""

import sys


def main() -> int:
    """Run the command line. Ctrl-C while it is imported has no traceback either."""
    try:
        from devmod._cli import main

        return main()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
