"""Run every benchmark, print one table of all ratios with their bounds, and write all figures to
build/figures.json.

    python tools/benchmarks/all.py [name …]

A name selects the benchmarks whose file contains it. The file keeps the figures of the other
benchmarks, each with its date, its machine and the versions of the peers. A second run of one
commit on one day adds its ratios: the table has the least, the median and the greatest. `make
performance` makes the tables and pictures of docs/performance.md from it. Exits with 1 if a
benchmark fails or a figure exceeds its bound.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from timing import FIGURES

# Where to change: a benchmark, whose figures are on the page of the performance
#   here: a file `bench_NAME.py` in this folder; `PEERS` if it measures other projects too
#   also: `docs/performance.md`: a table of its title, which `make performance` fills
#   tests: `tests/test_performance.py`
#: The distributions beside which a benchmark measures devmod, or on which it runs, by the
#: benchmark's name.
_OPENCL = ("pyopencl", "pocl-binary-distribution", "intel-opencl-rt")
_VULKAN = ("vulkan",)
_WEBGPU = ("wgpu",)
PEERS: dict[str, Sequence[str]] = {
    "build": ("slangpy",),
    "cold_source": _OPENCL,
    "cuda_compile": ("nvidia-cuda-nvrtc", "nvidia-cuda-nvcc"),
    "first_result": (*_OPENCL, *_VULKAN, *_WEBGPU),
    "functions": ("safetensors",),
    "hexagon": ("ziglang", "numpy"),
    "host_arrays": (*_OPENCL, *_VULKAN, *_WEBGPU, "numpy"),
    "launch_cuda": ("cuda-core", "cuda-bindings", "pycuda"),
    "launch_opencl": _OPENCL,
    "launch_vulkan": _VULKAN,
    "launch_webgpu": _WEBGPU,
    "load_url": ("fsspec",),
    "lookup": ("stevedore",),
    "many_shaders": (*_VULKAN, *_WEBGPU),
    "models": ("tinygrad", *_OPENCL),
    "one_source": ("slangpy", "libclang"),
    "opencl_compile": ("ziglang", "libclang"),
    "programs": (*_OPENCL, *_VULKAN, *_WEBGPU),
    "rocm": ("ziglang",),
    "tune": _OPENCL,
}
OUT = Path(__file__).resolve().parents[2] / "build" / "figures.json"


def machine() -> str:
    """Return the processor, the number of its cores, the system and the Python."""
    processor = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            processor = next(
                (line.partition(":")[2].strip() for line in file if line.startswith("model name")),
                processor,
            )
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def peers(name: str) -> str:
    """Return the versions of the peers of a benchmark that are installed."""
    found = []
    for peer in PEERS.get(name, ()):
        with suppress(PackageNotFoundError):
            found.append(f"{peer} {version(peer)}")
    return ", ".join(found)


def add_run(run: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """Return a run whose ratios have those of earlier runs beside them, if these measured the same
    commit on the same day and machine.
    """
    if any(run[key] != earlier.get(key) for key in ("commit", "date", "machine", "peers")):
        return run
    before = {}
    for row in earlier["figures"]:
        if "ratio" in row:
            before[row["what"], row["of"]] = row.get("runs", [row["ratio"]])
    for row in run["figures"]:
        if "ratio" in row and (ratios := before.get((row["what"], row["of"]))):
            row["runs"] = [*ratios, row["ratio"]]
    return run


def write(runs: dict[str, Any]) -> None:
    """Write the runs of all benchmarks. Each benchmark's end writes them: a later one may be cut
    off.
    """
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(runs, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(names: list[str]) -> int:
    """Run the benchmarks, print the table and write the file; return the exit code."""
    files = sorted(Path(__file__).parent.glob("bench_*.py"))
    if names:
        files = [path for path in files if any(name in path.stem for name in names)]
    failed = []
    rows = []
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=OUT.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    written = {}
    if OUT.exists():
        written = json.loads(OUT.read_text(encoding="utf-8"))
    for path in files:
        print(f"\n== {path.name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            figures = Path(folder, "figures")
            figures.touch()
            environment = os.environ | {FIGURES: str(figures)}
            process = subprocess.run([sys.executable, path], env=environment, check=False)
            if process.returncode:
                failed.append(path.name)
            found = [json.loads(line) for line in figures.read_text(encoding="utf-8").splitlines()]
        if found:
            name = path.stem.removeprefix("bench_")
            run = {
                "date": f"{datetime.date.today()}",
                "machine": machine(),
                "peers": peers(name),
                "commit": commit,
                "figures": found,
            }
            written[name] = add_run(run, written.get(name, {}))
            write(written)
        rows += [row for row in found if "ratio" in row]
    print_table(rows)
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    else:
        print("\nAll within the bounds.")
    return int(bool(failed))


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print the ratios, with those of earlier runs."""
    width = max((len(row["what"]) for row in rows), default=0)
    print(f"\n{'':{width}}  {'ratio':>7} {'most':>6}")
    for row in rows:
        line = f"{row['what']:{width}}  {row['ratio']:7.3g} {row['most']:6g}  of {row['of']}"
        if row["ratio"] > row["most"]:
            line += "  over"
        runs = row.get("runs", [])
        if runs:
            line += f"  {len(runs)} runs: {min(runs):.3g}, {median(runs):.3g}, {max(runs):.3g}"
        print(line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
