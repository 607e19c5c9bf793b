"""The worker process: `python <this folder> ADDRESS SIZE`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent
    # A folder that Python runs is on the path itself; the files in it are modules of a package.
    sys.path[:1] = [str(folder.parent), str(folder.parents[3] / "tests" / "standin")]
    from ptx_interpreter.worker import main

    raise SystemExit(main(sys.argv[1:]))
