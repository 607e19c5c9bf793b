"""Projects for the tests of `devmod build`, and the tasks that workers run in place of a
compiler.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from devmod_targets.build.jobs import attempt
from devmod_targets.build.manifest import Manifest
from devmod_targets.build.plan import Job, Plan
from devmod_targets.build.result import Outcome

KERNEL = "kernel void {name}(global float *x) {{ x[get_global_id(0)] *= {factor}; }}\n"


def write_kernels(folder: Path, count: int = 2) -> Path:
    """Write a manifest with kernels k0, k1, … for OpenCL, the fastest of the compilers, and return
    its path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = []
    for number in range(count):
        (folder / f"k{number}.cl").write_text(KERNEL.format(name=f"k{number}", factor=number + 2))
        tables.append(f'[kernels.k{number}]\nsources = ["k{number}.cl"]\n')
    manifest = folder / "devmod.toml"
    manifest.write_text('output = "k.devmod"\ntargets = ["opencl"]\n' + "".join(tables))
    return manifest


def built_failure(source: Path, target: str, **settings: object) -> str:
    """Build a source by a manifest in its folder, which must fail. Return the message."""
    import devmod

    values = "".join(
        f"{name} = {[*map(str, value)] if isinstance(value, list) else value!r}\n"
        for name, value in settings.items()
    )
    manifest = source.parent / "devmod.toml"
    manifest.write_text(
        f'output = "k.devmod"\ntargets = [{target!r}]\n[kernels.k]\nsources = [{source.name!r}]\n{values}'
    )
    (failure,) = devmod.build(manifest).failures
    return str(failure.message)


def jobs_in(folder: Path, count: int) -> list[Job]:
    """Return jobs whose sources need not exist."""
    return [Job(f"k{number}", str(folder), f"k{number}.cl", "opencl") for number in range(count)]


def plan_in(folder: Path, *jobs: Job) -> Plan:
    return Plan(Manifest("devmod.toml", str(folder), "k.devmod", (), ()), jobs)


# -- tasks of workers: each leaves a file with the number of the process in the folder of the job,
# once for each run


def run_count(job: Job) -> int:
    return len(list(Path(job.folder).glob(f"{job.kernel}.*.run")))


def _note(job: Job) -> None:
    Path(job.folder, f"{job.kernel}.{time.time_ns()}.run").write_text(str(os.getpid()))


def note(job: Job) -> Outcome:
    """Leave the file."""
    _note(job)
    return Outcome(b"done")


def note_and_compile(job: Job, with_sources: bool) -> Outcome:
    _note(job)
    return attempt(job, with_sources=with_sources)


def die_once(job: Job) -> Outcome:
    """Kill this process in the first run of k1, when another job is running as well."""
    first = run_count(job) == 0
    _note(job)
    if job.kernel == "k1" and first:
        wait_for(lambda: any(Path(job.folder).glob("k0.*.run")))
        os.kill(os.getpid(), signal.SIGKILL)
    if job.kernel == "k0":  # it is still running when k1 dies
        wait_for(lambda: run_count(_named(job, "k1")) == 2)
    return Outcome(b"done")


def die(job: Job) -> Outcome:
    """Kill this process in each run of k1."""
    _note(job)
    if job.kernel == "k1":
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(b"done")


def leave_program(job: Job) -> Outcome:
    """Start a program, leave its number in the folder of the job, and kill this process in the
    first run.
    """
    first = run_count(job) == 0
    _note(job)
    if first:
        sleeper = subprocess.Popen(["sleep", "1000"])
        Path(job.folder, "pid").write_text(str(sleeper.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(b"done")


def print_and_read(job: Job) -> Outcome:
    """Do what compilers do: print, and read standard input."""
    os.write(1, b"noise of a compiler\n")
    return Outcome(os.read(0, 10) + b"done")


def wait_for(condition: object) -> None:
    """Wait until a condition holds; two minutes at most."""
    for _ in range(12000):
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.01)
    raise AssertionError("the condition does not hold after two minutes")


def is_running(pid: int) -> bool:
    """Return whether a process runs, by /proc."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _named(job: Job, kernel: str) -> Job:
    return Job(kernel, job.folder, f"{kernel}.cl", job.target)
