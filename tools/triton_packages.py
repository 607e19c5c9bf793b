"""Record, build and serve the kernels of suites on the simulated GPU, and compare them with what
Triton compiles: the compiles of a run, the time before the first launch of a kernel, the bits of
the tensors after each launch; and what is built for each architecture, with bytes and seconds.

    TRITON=FOLDER python tools/triton_packages.py [SUITE ...]

TRITON names the folder of Triton's sources. Environments and outputs are in build/peers-simulated.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from environments import ROOT
from peers_simulated import FOLDER, PYTEST, environment, execute

TOOLS = Path(__file__).parent
SUITE = {
    "requirements": [
        *("triton==3.9.0", "torch==2.13.0", "numpy", "scipy", "tabulate", "einops", "matplotlib"),
        *("liger-kernel==0.8.5", "flash-linear-attention==0.6.0"),
    ]
}
#: The GPU of the simulator has no wgmma. So it is not of sm_90, except for the suite of tutorials
#: whose launches need it: their smaller copies take other instructions for products of matrices.
ARCH = "89"
ARCHES = {"sm_90": "90"}
#: The tutorials that are also compiled for each target without a launch, with their own sizes: the
#: simulator has no wgmma and no tcgen05, so it cannot launch what sm_90 and sm_100 have of them.
ONLY_COMPILED = ("06", "08", "09", "10", "11")
#: The suites of tutorials, whose names no import has: a plain box cannot build their record.
PROGRAMS = ("tutorials", "sm_90")
TARGETS = ("cuda -arch=sm_80", "cuda -arch=sm_90", "cuda -arch=sm_100", "rocm -arch=gfx942")
#: The most seconds of a program, and of a test.
SECONDS = {"program": 900, "test": 120}
_UNIT = "python/test/unit/language/test_core.py"
_KERNELS = "python/triton_kernels"
_TUTORIALS = "python/tutorials"


def commands(suite: str, sources: Path) -> Iterator[list[str]]:
    """Yield the commands of a suite."""
    observed = str(TOOLS / "triton_observed.py")
    pytest = ["-m", "pytest", *PYTEST.split(), "-p", "triton_observed", "-p", "peers_torch"]
    # The text of a failure may call PyTorch, which raises.
    pytest.append("--tb=native")
    pytest[-6] += str(SECONDS["test"])
    if suite == "tutorials":
        for path in sorted((sources / _TUTORIALS).glob("0[1-57]-*.py")):
            yield [observed, str(path)]
        for path in sorted((sources / _TUTORIALS).glob("0[689]-*.py")):
            yield [observed, str(TOOLS / "triton_tutorials.py"), str(path)]
    elif suite == "sm_90":
        for number in ONLY_COMPILED:
            for path in (sources / _TUTORIALS).glob(f"{number}-*.py"):
                yield [observed, str(TOOLS / "triton_tutorials.py"), str(path)]
    elif suite == "language":
        yield [*pytest, str(sources / _UNIT)]
    elif suite == "triton_kernels":
        yield [*pytest, str(sources / _KERNELS / "tests")]
    else:
        yield [observed, str(TOOLS / f"triton_{suite}.py")]


#: What the run of a suite wrote, by the names of the tests.
Lines = dict[str, dict[str, Any]]
HEAD = """\
| suite | equal bits | compiles | median before a first launch | measured configurations | from the file: compiles | median | measured |
|---|---|---|---|---|---|---|---|"""
SUITES = ("tutorials", "sm_90", "language", "triton_kernels", "liger", "fla")


#: The name of what is compiled alone.
COMPILED = "compiled"


class Run:
    """The runs of a suite."""

    def __init__(self, python: Path, suite: str, sources: Path, work: Path) -> None:
        self.python = python
        self.suite = suite
        self.sources = sources
        self.work = work

    def __call__(self, name: str, *words: str, **variables: str) -> Lines:
        """Run the commands behind `words`, in which NUMBER is that of the command, and return the
        lines of the tests by name.
        """
        seen = self.work / f"{name}.jsonl"
        cache = self.work / f"{name}-cache"
        (self.work / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        path = os.pathsep.join([str(TOOLS), str(self.sources / _KERNELS)])
        own = {
            "PYTHONPATH": path,
            "OBSERVED": str(seen),
            "DEVMOD_CACHE_DIR": str(self.work / "devmod"),
            "TRITON_DEFAULT_FP_FUSION": "1",
            # A constant of test_cast is a hash of texts, which differs between processes.
            "PYTHONHASHSEED": "0",
        }
        arch = ARCHES.get(self.suite, ARCH)
        for number, command in enumerate(commands(self.suite, self.sources)):
            # The simulator sets a folder of Triton's cache.
            inner = ["env", f"TRITON_CACHE_DIR={cache}", f"PYTHONPATH={path}"]
            inner += [each.replace("NUMBER", str(number)) for each in words]
            inner += [str(self.python), *command]
            outer = [str(self.python), "-P", "-m", "devmod", "simulate", "--arch", f"sm_{arch}"]
            ended, output = execute(
                [*outer, "--", *inner],
                own | variables,
                self.work,
                SECONDS["program"] if "pytest" not in command else None,
            )
            last = " ".join(output.split())[-160:]
            print(f"{self.suite} {name}: {Path(command[-1]).name}: {ended}: {last}", flush=True)
        if not seen.exists():
            return {}
        lines = map(json.loads, seen.read_text(encoding="utf-8").splitlines())
        return {line["test"]: line for line in lines}


def compare(python: Path, suite: str, sources: Path) -> None:
    """Print the row of a suite: what its run compiles, and what it takes from a file."""
    work = FOLDER / f"triton-{suite}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run = Run(python, suite, sources, work)
    record = [str(python), "-P", "-m", "devmod", "triton", "record"]
    target = f"cuda -arch=compute_{ARCHES.get(suite, ARCH)}"
    compiled = run("jit")
    run("record", *record, "-t", target, "-o", str(work / "kNUMBER.devmod"), "--")
    served = run(
        "served",
        DEVMOD_TRITON=os.pathsep.join(map(str, work.glob("k*.devmod"))),
        TRITON_CACHE_MANAGER="devmod_runtime.triton:CacheManager",
    )
    lines, row = judge(suite, compiled, served)
    print("\n".join([*lines, row]), flush=True)


def judge(suite: str, compiled: Lines, served: Lines) -> tuple[list[str], str]:
    """Return what is wrong with tests that two runs have, and the row of the suite. A test whose
    process ended is in one run alone.
    """
    names = sorted(compiled.keys() & served.keys())
    problems = []
    equal = 0
    for name in names:
        if compiled[name]["digests"] == served[name]["digests"]:
            equal += 1
        else:
            problems.append(f"{suite}: {name}: other bits")
        if served[name]["compiles"]:
            problems.append(f"{suite}: {name}: {served[name]['compiles']} compiles")
    cells = [suite, f"{equal} of {len(names)}"]
    for lines in (compiled, served):
        seconds = [each for name in names for each in lines[name]["seconds"]]
        median = statistics.median(seconds) * 1e3 if seconds else 0
        cells.append(str(sum(lines[name]["compiles"] for name in names)))
        cells.append(f"{median:.1f} ms")
        cells.append(str(sum(lines[name]["measured"] for name in names)))
    return problems, f"| {' | '.join(cells)} |"


def build(python: Path, suite: str, sources: Path) -> None:
    """Print what is compiled of a suite for each architecture."""
    work = FOLDER / f"triton-{suite}"
    record = [str(python), "-P", "-m", "devmod", "triton", "record", "-o", str(work / "k.json")]
    Run(python, suite, sources, work)("record-names", *record, "--")
    for target in TARGETS:
        began = time.perf_counter()
        output = work / f"{target.rpartition('=')[2]}.devmod"
        command = [str(python), "-P", "-m", "devmod", "triton", "build", str(work / "k.json")]
        command += ["-t", target, "-o", str(output), "--no-cache"]
        ended, text = execute(command, {"PYTHONPATH": str(TOOLS)}, work)
        seconds = time.perf_counter() - began
        (work / f"{target.rpartition('=')[2]}.txt").write_text(text, encoding="utf-8")
        lines = [line for line in text.splitlines() if line.startswith(target)]
        size = output.stat().st_size if output.exists() else 0
        print(f"| {suite} | {' '.join(lines)} | {size:,} bytes | {seconds:.0f} s | {ended} |")


def compile_tutorials(python: Path, sources: Path) -> None:
    """Print what is compiled of the tutorials that cannot be launched, for each architecture."""
    work = FOLDER / "triton-compiled"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    devmod = [str(python), "-P", "-m", "devmod"]
    for number in ONLY_COMPILED:
        for path in (sources / _TUTORIALS).glob(f"{number}-*.py"):
            output = work / f"{number}.devmod"
            record = [*devmod, "triton", "record", "-o", str(output)]
            for target in TARGETS:
                record += ["-t", target]
            program = [str(TOOLS / f"triton_{each}.py") for each in ("observed", "tutorials")]
            simulated = [*devmod, "simulate", "--arch", "sm_100", "--", *record, "--", str(python)]
            variables = {
                "COMPILE_ONLY": "1",
                "OBSERVED": os.devnull,
                "PYTHONPATH": str(TOOLS),
                "DEVMOD_CACHE_DIR": str(work / "devmod"),
            }
            began = time.perf_counter()
            ended, text = execute(
                [*simulated, *program, str(path)], variables, work, SECONDS["program"]
            )
            seconds = time.perf_counter() - began
            size = output.stat().st_size if output.exists() else 0
            lines = [line for line in text.splitlines() if "cuda -arch" in line or "rocm" in line]
            print(f"{path.name}: {ended}, {size:,} bytes, {seconds:.0f} s", *lines, sep="\n  ")
            (work / f"{number}.txt").write_text(text, encoding="utf-8")


def main(names: Sequence[str]) -> None:
    """Run suites."""
    for name in names:
        if name not in (*SUITES, COMPILED):
            known = ", ".join((*SUITES, COMPILED))
            raise SystemExit(f"there is no suite {name!r}; there is: {known}")
    sources = Path(os.environ.get("TRITON", ROOT)).resolve()
    python = environment("triton-packages", SUITE)
    print(HEAD)
    for name in names or (*SUITES, COMPILED):
        if name == COMPILED:
            compile_tutorials(python, sources)
            continue
        compare(python, name, sources)
        if name not in PROGRAMS:
            build(python, name, sources)


if __name__ == "__main__":
    main(sys.argv[1:])
