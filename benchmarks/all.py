"""Run every benchmark, print one table of all ratios with their bounds, and write all figures to build/figures.json.

    python benchmarks/all.py [name …]

A name selects the benchmarks whose file contains it. The file keeps the figures of the other benchmarks, each with its date and machine;
`make performance` makes the tables and pictures of docs/performance.md from it. Exits with 1 if a benchmark fails or a figure exceeds its
bound.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import FIGURES

OUT = Path(__file__).resolve().parent.parent / "build" / "figures.json"


def machine() -> str:
    """Return the processor, the number of its cores, the system and the Python."""
    processor = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            processor = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), processor)
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def main(names: list[str]) -> int:
    """Run the benchmarks, print the table and write the file; return the exit code."""
    files = [path for path in sorted(Path(__file__).parent.glob("bench_*.py")) if not names or any(name in path.stem for name in names)]
    failed, rows = [], []
    written = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    for path in files:
        print(f"\n== {path.name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            figures = Path(folder, "figures")
            figures.touch()
            if subprocess.run([sys.executable, path], env=os.environ | {FIGURES: str(figures)}, check=False).returncode:
                failed.append(path.name)
            found = [json.loads(line) for line in figures.read_text(encoding="utf-8").splitlines()]
        rows += [row for row in found if "ratio" in row]
        if found:
            written[path.stem.removeprefix("bench_")] = {"date": f"{datetime.date.today()}", "machine": machine(), "figures": found}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    width = max((len(row["what"]) for row in rows), default=0)
    print(f"\n{'':{width}}  {'ratio':>7} {'most':>6}")
    for row in rows:
        over = "  over" if row["ratio"] > row["most"] else ""
        print(f"{row['what']:{width}}  {row['ratio']:7.3g} {row['most']:6g}  of {row['of']}{over}")
    print("\n" + (f"Failed: {', '.join(failed)}" if failed else "All within the bounds."))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
