"""The worker process: `python <this folder> ADDRESS SIZE`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # A folder that Python runs is on the path itself; the files in it are modules of a package.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from devmod_standins.rdna3.worker import main

    raise SystemExit(main(sys.argv[1:]))
