"""Run the examples of pycuda's sources on the simulated GPU: `python pycuda_examples.py
pycuda/examples`, beside nvcc.

pip install devmod-simulators pycuda cgen codepy
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

#: Most of them have lost the import that makes a context.
RUN = "import pycuda.autoinit, runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
SECONDS = 100


def main() -> None:
    """Print the last line of each example that ends in time, and how many succeed."""
    paths = sorted(Path(sys.argv[1]).rglob("*.py"))
    succeeded = 0
    for path in paths:
        command = ["devmod", "simulate", "--", sys.executable, "-c", RUN, path.name]
        start = time.perf_counter()
        try:
            done = subprocess.run(
                command,
                cwd=path.parent,
                input="64\n",
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"too slow  {path.name}")
            continue
        succeeded += done.returncode == 0
        lines = (done.stdout if done.returncode == 0 else done.stderr).split("\n")
        last = next((each for each in reversed(lines) if each), "")
        print(
            f"{'ok' if done.returncode == 0 else 'failed':8} {time.perf_counter() - start:4.0f} s  {path.name}: {last[:80]}",
            flush=True,
        )
    print(f"{succeeded} of {len(paths)}")


if __name__ == "__main__":
    main()
