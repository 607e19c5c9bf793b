"""The same small job in devmod, pyopencl, Taichi, Warp, IREE, Numba and NumPy: no bounds, since
each does another job beside it.

    python tools/benchmarks/bench_peers.py --install   makes build/peers with the peers (1.4 GB),
    and ends python tools/benchmarks/bench_peers.py [--rounds 7] [--only devmod NumPy]

Without build/peers nothing is measured, and one line says how to install it. The contenders are in
peers.py, each in a process of its own. The processes take turns, and each figure is the least of
the turns: other processes on the machine only add time. A process is stopped while another has its
turn, because some runtimes keep a core busy while they wait for work.

- A call: from two NumPy arrays of float32 to the result in one, with all copies. Each turn is the
  median of the calls of 30 ms.
- The first result: from the start of a new process to the result of axpy with 4 KiB, Python's start
  and the imports included. "Cold" is with new folders for all caches of kernels, devmod's index of
  plugins included; "warm" is the next process with the same folders. Bytecode is compiled in both.
  devmod and IREE load a file that was compiled before; the others compile.
- The import: a new process that imports the project, less one that does nothing.
- The size: the files of the distributions and of what they require, without NumPy, without
  bytecode, and without the driver of a device.

A contender without a device here is left out, with the reason. Exits with 1 only if a contender
fails otherwise.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import signal
import site
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

from bare import share_device
from peers import CONTENDERS, SIZES
from timing import note, process_time, record

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import environments  # noqa: E402
import wheels  # noqa: E402

PEERS = ROOT / "build" / "peers"
REQUIREMENTS = (
    "taichi",
    "warp-lang",
    "iree-base-runtime",
    "iree-base-compiler",
    "numba",
    "pyopencl[pocl]",
    "numpy",
)
JOBS = ("axpy", "softmax")
#: What a program imports.
IMPORTS = {
    "devmod": "devmod",
    "pyopencl": "pyopencl",
    "Taichi": "taichi",
    "Warp": "warp",
    "IREE": "iree.runtime",
    "Numba": "numba",
    "NumPy": "numpy",
}
#: What is installed.
DISTRIBUTIONS = {
    "devmod, OpenCL": ("devmod-opencl",),
    "devmod, Vulkan": ("devmod-vulkan",),
    "devmod, WebGPU": ("devmod-webgpu",),
    "devmod, OpenCL and its compiler": ("devmod-opencl", "devmod-targets", "libclang"),
    "pyopencl": ("pyopencl",),
    "Taichi": ("taichi",),
    "Warp": ("warp-lang",),
    "IREE": ("iree-base-runtime",),
    "IREE and its compiler": ("iree-base-runtime", "iree-base-compiler"),
    "Numba": ("numba",),
}


def install() -> None:
    """Make the environment of the peers."""
    environments.install(environments.make_venv(PEERS), REQUIREMENTS)
    print(f"{PEERS.relative_to(ROOT)} has {', '.join(REQUIREMENTS)}")


def python_for(name: str) -> str:
    """Return the interpreter with a project: devmod's is this one."""
    return sys.executable if name.startswith("devmod") else str(environments.python_of(PEERS))


def command(do: str, name: str, folder: Path) -> list[str]:
    """Return the command of a contender."""
    return [python_for(name), str(Path(__file__).with_name("peers.py")), do, name, str(folder)]


def environment(caches: Path) -> dict[str, str]:
    """Return the variables of a process whose caches of kernels are in one folder."""
    names = [
        "XDG_CACHE_HOME",
        "DEVMOD_CACHE_DIR",
        "POCL_CACHE_DIR",
        "MESA_SHADER_CACHE_DIR",
        "NUMBA_CACHE_DIR",
        "WARP_CACHE_PATH",
    ]
    names.append("TI_OFFLINE_CACHE_FILE_PATH")
    folders = {name: str(caches / name.lower()) for name in names}
    for folder in folders.values():
        os.makedirs(folder, exist_ok=True)
    return {"XDG_RUNTIME_DIR": tempfile.gettempdir()} | os.environ | folders


def compile_all(names: Iterable[str], folder: Path) -> list[str]:
    """Write what contenders compile before, and return those that give a result here."""
    found = []
    for name in names:
        for do in ("compile", "first"):
            done = subprocess.run(
                command(do, name, folder),
                env=environment(folder),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                reason = (done.stderr.strip() or "no message").splitlines()[-1]
                print(f"{name} is not measured: {reason}")
                break
        else:
            if "True" not in done.stdout:
                raise SystemExit(f"{name} gives a wrong result:\n{done.stdout}{done.stderr}")
            found.append(name)
    return found


def first_result(name: str, folder: Path, caches: Path) -> float:
    """Return the milliseconds from the start of a process to its result."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command("first", name, folder),
        env=environment(caches),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "True\n":
        raise SystemExit(f"{name} gave no result")
    took = (time.perf_counter() - began) * 1e3
    process.communicate()
    return took


def bench_first_result(names: list[str], folder: Path, rounds: int) -> None:
    """Measure new processes."""
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for name in names:
            with tempfile.TemporaryDirectory() as caches:
                for state in ("cold", "warm"):
                    times.setdefault((state, name), []).append(
                        first_result(name, folder, Path(caches))
                    )
    print(f"\n{'first result in a new process, ms':36}{'cold':>9}{'warm':>9}")
    for name in names:
        cold = min(times["cold", name])
        warm = min(times["warm", name])
        print(f"{name:36}{cold:9.0f}{warm:9.0f}")
        record("First result in a new process", name, cold, "ms", column="caches empty")
        record("First result in a new process", name, warm, "ms", column="caches warm")


def bench_import(names: list[str], rounds: int) -> None:
    """Measure imports."""
    times: dict[str, list[float]] = {}
    projects: dict[str, str] = {}
    for project in IMPORTS:
        if any(name.startswith(project) for name in names):
            projects[project] = IMPORTS[project]
    for round_ in range(rounds + 1):
        bare = process_time()
        for name, module in projects.items():
            took = process_time(f"import {module}", python=python_for(name))
            if round_:  # the first writes the bytecode
                times.setdefault(name, []).append(took)
                times.setdefault("", []).append(bare)
    least = min(times.pop(""))
    print(f"\n{'import in a new process, ms':36}")
    for name, each in times.items():
        over = max(min(each) - least, 0.0)
        print(f"{name:36}{over:9.1f}")
        record("Import in a new process", name, over, "ms")


def bench_size() -> None:
    """Measure what is installed."""
    print(f"\n{'installed size beside NumPy, MB':36}")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as unpacked:
        for wheel in wheels.build(Path(folder)):
            zipfile.ZipFile(wheel).extractall(unpacked)
        for name, distributions in DISTRIBUTIONS.items():
            if name.startswith("devmod"):
                places = [unpacked, *site.getsitepackages()]
            else:
                places = [str(next(PEERS.glob("lib/*/site-packages")))]
            size = sum(size_of(each) for each in with_requirements(distributions, places)) / 1e6
            print(f"{name:36}{size:9.1f}")
            record("Installed size", name, size, "MB")


def with_requirements(
    names: Iterable[str], places: list[str]
) -> list[importlib.metadata.Distribution]:
    """Return distributions with those that they require, without NumPy."""
    left = list(names)
    seen = {"numpy"}
    found = []
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        for distribution in importlib.metadata.Distribution.discover(name=name, path=places):
            found.append(distribution)
            left += [
                re.split(r"[^\w.-]", each)[0]
                for each in distribution.requires or ()
                if "extra ==" not in each
            ]
            break
    return found


def size_of(distribution: importlib.metadata.Distribution) -> int:
    """Return the bytes of a distribution's files."""
    nbytes = 0
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file)))
        if file.suffix != ".pyc" and path.is_file():
            nbytes += path.stat().st_size
    return nbytes


class Worker:
    """A process that makes calls, and is stopped between its turns.

    Parameters
    ----------
    name, folder
        The contender, and what it compiled.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            command("calls", name, folder),
            env=environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._name = name
        self._line()
        os.kill(self._process.pid, signal.SIGSTOP)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._name} ended")
        return line.strip()

    def turn(self, job: str, size: int) -> float:
        """Return the microseconds of a call."""
        assert self._process.stdin is not None
        os.kill(self._process.pid, signal.SIGCONT)
        self._process.stdin.write(f"{job} {size}\n")
        self._process.stdin.flush()
        result = float(self._line())
        os.kill(self._process.pid, signal.SIGSTOP)
        return result

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def bench_calls(names: list[str], folder: Path, rounds: int) -> None:
    """Measure calls."""
    workers = {name: Worker(name, folder) for name in names}
    for job in JOBS:
        print(
            f"\n{f'a call of {job} with NumPy arrays, µs':36}"
            + "".join(f"{human(size):>11}" for size in SIZES)
        )
        least: dict[tuple[str, int], float] = {}
        for _ in range(rounds):
            for size in SIZES:
                for name, worker in workers.items():
                    took = worker.turn(job, size)
                    least[name, size] = min(took, least.get((name, size), took))
        for name in names:
            print(f"{name:36}" + "".join(f"{least[name, size]:11.1f}" for size in SIZES))
            for size in SIZES:
                record(
                    f"A call of {job} with NumPy arrays", name, least[name, size], "µs", column=size
                )
    for worker in workers.values():
        worker.close()


def human(size: int) -> str:
    """Return a size for a person."""
    if size >= 1 << 20:
        return f"{size >> 20} MiB"
    if size >= 1 << 10:
        return f"{size >> 10} KiB"
    return f"{size} B"


def versions() -> str:
    """Return the versions of the peers and of what devmod calls."""
    place = [str(next(PEERS.glob("lib/*/site-packages")))]
    names = [name.partition("[")[0] for name in REQUIREMENTS]
    found = [
        next(iter(importlib.metadata.Distribution.discover(name=name, path=place)))
        for name in names
    ]
    below = ("pyopencl", "pocl-binary-distribution", "vulkan", "wgpu")
    own = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in below)
    return f"The versions: {', '.join(f'{each.name} {each.version}' for each in found)}; devmod with {own}."


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--install", action="store_true", help="make build/peers, and end")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=[""], help="contenders whose names begin so")
    options = parser.parse_args()
    if options.install:
        install()
        return 0
    if not PEERS.exists():
        print(
            "not measured: build/peers is missing. `python tools/benchmarks/bench_peers.py --install` installs the peers (1.4 GB)"
        )
        return 0
    print(versions())
    note(versions())
    bench_size()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        share_device(folder)
        names = compile_all(
            [name for name in CONTENDERS if name.startswith(tuple(options.only))], folder
        )
        bench_import(names, options.rounds)
        bench_first_result(names, folder, options.rounds)
        bench_calls(names, folder, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
