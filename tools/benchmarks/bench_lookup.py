"""The first look-up in a new process, and the second: devmod beside importlib.metadata and
stevedore.

    python tools/benchmarks/bench_lookup.py [--distributions 1000 2000] [--processes 15]

Each figure is the lower quartile over new processes, because other processes on the machine only
add time. Each round runs every contender once. sys.path has a folder with so many other
distributions, and with one plugin whose module has a Module and a function. The first look-up is
``devmod.load_from_bytes(kind, b"")`` right after ``import devmod``, and its time includes what it
imports. The imports of importlib.metadata and stevedore are rows of their own. The operating
system's cache, devmod's indexes and stevedore's cache file are warm. The exit code is 1 if a
look-up takes a larger part than its bound.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from timing import check, record

HIT = """
import time
import devmod
began = time.perf_counter()
module = devmod.load_from_bytes("bench", b"")
took = time.perf_counter() - began
from devmod._plugins import registry
from devmod._plugins.lookup import lookup
again = []
for _ in range(2000):
    began = time.perf_counter()
    lookup("devmod.load_from_bytes", "bench")
    again.append(time.perf_counter() - began)
print(took * 1e3, sorted(again)[1000] * 1e3)
"""
# devmod-cuda may be installed, so it is excluded: the look-up must miss.
MISS = """
import os
import time
os.environ["DEVMOD_PLUGINS_DENY"] = "devmod-cuda"
import devmod
took = []
for _ in range(2):
    began = time.perf_counter()
    try:
        devmod.load_from_bytes("{kind}", b"")
    except devmod.NotRegisteredError:
        took.append(time.perf_counter() - began)
print(took[0] * 1e3, took[1] * 1e3)
"""
IMPORTLIB = """
import time
start = time.perf_counter()
import importlib.metadata
began = time.perf_counter()
entry, = importlib.metadata.entry_points(group="devmod.load_from_bytes", name="bench")
entry.load()
took = time.perf_counter() - began
once = time.perf_counter()
importlib.metadata.entry_points(group="devmod.load_from_bytes", name="bench")
print((began - start) * 1e3, took * 1e3, (time.perf_counter() - once) * 1e3)
"""
STEVEDORE = """
import time
start = time.perf_counter()
import stevedore.driver
began = time.perf_counter()
stevedore.driver.DriverManager("devmod.load_from_bytes", "bench", invoke_on_load=False).driver
print((began - start) * 1e3, (time.perf_counter() - began) * 1e3, 0)
"""

PLUGIN = """
from devmod import Module

class BenchModule(Module):
    kind = "bench"
    def get_function(self, name, query_imports=False):
        raise NotImplementedError

def load(data):
    return BenchModule()
"""
#: The bounds as parts of the first look-up of importlib.metadata: a first look-up, by the number of
#: distributions, and a second one.
FIRST = {1000: 0.17, 2000: 0.11}
SECOND = 0.00003


def write_distribution(folder: Path, name: str, entry_points: str) -> None:
    """Write a distribution's metadata as an installer does."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nSummary: one of many\n\n"
        + "text " * 400
    )
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    (info / "RECORD").write_text("")
    if entry_points:
        (info / "entry_points.txt").write_text(entry_points)


def make_folder(count: int, base: Path) -> Path:
    """Make a folder like site-packages: `count` distributions, four in ten with entry points, and
    the plugin.
    """
    folder = base / f"site-{count}"
    folder.mkdir()
    for number in range(count):
        name = f"other-{number:04}"
        write_distribution(
            folder,
            name,
            f"[console_scripts]\n{name} = other_{number}:main\n" if number % 10 < 4 else "",
        )
        (folder / f"other_{number:04}").mkdir()
    write_distribution(
        folder,
        "devmod-bench",
        "[devmod.load_from_bytes]\nbench = devmod_bench:load\n\n[devmod.protocol]\n1 = devmod\n",
    )
    (folder / "devmod_bench").mkdir()
    (folder / "devmod_bench" / "__init__.py").write_text(PLUGIN)
    return folder


def quartiles(
    programs: dict[str, str], folder: Path, cache: Path, processes: int
) -> dict[str, list[float]]:
    """Return the lower quartiles of the figures that each program prints, over new processes."""
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "DEVMOD_CACHE_DIR": str(cache),
        "XDG_CACHE_HOME": str(cache),
    }
    for name in (
        "DEVMOD_PLUGINS_ALLOW",
        "DEVMOD_PLUGINS_DENY",
        "DEVMOD_PLUGINS_CHOOSE",
        "DEVMOD_LOG",
        "PYTHONDONTWRITEBYTECODE",
    ):
        environment.pop(name, None)
    rows: dict[str, list[list[float]]] = defaultdict(list)
    for _ in range(processes + 2):
        for name, program in programs.items():
            process = subprocess.run(
                [sys.executable, "-c", program],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            rows[name].append([float(word) for word in process.stdout.split()])
    # The first two rounds warm the caches.
    return {
        name: [sorted(column)[processes // 4] for column in zip(*result[2:], strict=True)]
        for name, result in rows.items()
    }


def measure(count: int, processes: int, base: Path) -> dict[str, list[float]]:
    """Return the figures of all contenders with a folder of `count` distributions, in
    milliseconds.
    """
    folder = make_folder(count, base)
    cache = base / f"cache-{count}"
    time.sleep(2.1)  # a folder that has just changed is not indexed
    programs = {
        "hit": HIT,
        "miss, known": MISS.format(kind="cuda"),
        "miss, unknown": MISS.format(kind="nobody"),
        "importlib.metadata": IMPORTLIB,
    }
    if importlib.util.find_spec("stevedore") is not None:
        programs["stevedore"] = STEVEDORE
    return quartiles(programs, folder, cache, processes)


def report(count: int, found: dict[str, list[float]]) -> bool:
    """Print one table. Return whether a figure exceeds its bound."""
    over = False
    print(f"\n{count} other distributions, index warm; lower quartiles")
    print(f"  {'':46}{'ms':>9}{'of importlib.metadata':>24}{'at most':>10}")

    def row(name: str, took: float, most: float | None = None, number: str = "first") -> None:
        nonlocal over
        peer = found["importlib.metadata"][1 if number == "first" else 2]
        record(
            "Looking up a kind",
            name.removesuffix(", its cache warm"),
            took,
            "ms",
            column=f"beside {count:,} distributions",
        )
        if most is not None:
            over |= check(
                f"{name}, beside {count} distributions",
                took / peer,
                most,
                of=f"importlib.metadata, {number} look-up",
            )
        print(
            f"  {name:46}{took:9.4f}{took / peer:24.5f}{'' if most is None else f'{most:.5f}':>10}"
        )

    first = FIRST.get(count)
    row("devmod, first look-up, hit", found["hit"][0], first)
    row("devmod, first look-up, miss of a known kind", found["miss, known"][0], first)
    row("devmod, first look-up, miss of an unknown kind", found["miss, unknown"][0], first)
    row("devmod, second look-up, hit", found["hit"][1], SECOND, "second")
    row("devmod, second look-up, miss", found["miss, unknown"][1])
    row("importlib.metadata, first look-up", found["importlib.metadata"][1])
    row("importlib.metadata, second look-up", found["importlib.metadata"][2])
    row("importlib.metadata, its import", found["importlib.metadata"][0])
    if "stevedore" in found:
        row("stevedore, first look-up, its cache warm", found["stevedore"][1])
        row("stevedore, its import", found["stevedore"][0])
    else:
        print("  stevedore is not installed; `pip install stevedore` adds it to the table")
    return over


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--distributions", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--processes", type=int, default=15)
    options = parser.parse_args()
    over = False
    with tempfile.TemporaryDirectory() as base:
        for count in options.distributions:
            over |= report(count, measure(count, options.processes, Path(base)))
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
