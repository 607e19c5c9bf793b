"""Run every benchmark, and print one table of all ratios with their bounds.

    python benchmarks/all.py [name …]

A name selects the benchmarks whose file contains it. Exits with 1 if a benchmark fails or a figure exceeds its bound.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import FIGURES


def main(names: list[str]) -> int:
    """Run the benchmarks and print the table; return the exit code."""
    files = [path for path in sorted(Path(__file__).parent.glob("bench_*.py")) if not names or any(name in path.stem for name in names)]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder, "figures")
        figures.touch()
        for path in files:
            print(f"\n== {path.name}", flush=True)
            if subprocess.run([sys.executable, path], env=os.environ | {FIGURES: str(figures)}, check=False).returncode:
                failed.append(path.name)
        rows = [json.loads(line) for line in figures.read_text(encoding="utf-8").splitlines()]
    width = max((len(row["what"]) for row in rows), default=0)
    print(f"\n{'':{width}}  {'ratio':>7} {'most':>6}")
    for row in rows:
        over = "  over" if row["ratio"] > row["most"] else ""
        print(f"{row['what']:{width}}  {row['ratio']:7.3g} {row['most']:6g}  of {row['of']}{over}")
    print("\n" + (f"Failed: {', '.join(failed)}" if failed else "All within the bounds."))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
