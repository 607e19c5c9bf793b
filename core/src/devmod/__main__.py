"""`python -m devmod` is the command `devmod`."""

import sys

from devmod._cli import main

if __name__ == "__main__":
    sys.exit(main())
