"""The libraries that Triton compiles for its drivers, on each machine where it launches, and in
version 3.6 for each signature: a machine without a C compiler takes them from the file.
"""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import devmod
from devmod import Target
from devmod.backend import (
    DiskCache,
    environment_text,
    find_program,
    loads_own,
    temporary_folder,
)
from devmod.errors import CompileError, DevmodError
from devmod_readers.triton import (
    DRIVERS,
    HIP_PATH,
    HIP_PLACE,
    LAUNCHER,
    Parts,
    driver_source,
    launcher_source,
    library_name,
)
from devmod_targets.authoring._process import run_program
from devmod_targets.build.plan import Job
from devmod_targets.build.pool import Pool
from devmod_targets.build.result import Outcome
from devmod_targets.triton.kernels import import_triton

#: CUDA's driver, which a build box does not have.
_NEEDS = "libcuda.so.1"
_COMPILERS = ("gcc", "clang", "cc")
_CACHE = DiskCache("triton")


def build_libraries(
    targets: Iterable[str], kernels: Iterable[bytes], workers: int, *, cache: bool
) -> tuple[dict[str, bytes], list[str]]:
    """Return the libraries by the names that `devmod.interop.triton.serve` looks for: each for its
    source in this Triton, the ABI of this Python and this platform; and why others are missing.

    Parameters
    ----------
    targets
        The targets.
    kernels
        The files of the kernels.
    workers
        The largest number of processes.
    cache
        Whether to use the cache.
    """
    backends = {"hip" if Target.parse(each).kind == "rocm" else "cuda" for each in targets}
    jobs = {}
    for backend in sorted(backends):
        stem = DRIVERS[backend][0]
        source = driver_source(import_triton(""), backend)
        jobs[library_name(stem, source)] = Job(stem, "", source, backend)
    for backend, source in _launchers(kernels):
        jobs[library_name(LAUNCHER, source)] = Job(LAUNCHER, "", source, backend)
    names = list(jobs)
    found = {}
    lines: dict[str, None] = {}
    with Pool(workers, library_job, cache=cache) as pool:
        for number, outcome in pool.run(list(jobs.values())):
            if outcome.error:
                lines[
                    f"the file has no library of Triton's driver, so each machine compiles it: {outcome.message}"
                ] = None
            else:
                found[names[number]] = outcome.data
    return {name: found[name] for name in sorted(found)}, list(lines)


def _launchers(kernels: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the backend and the source of the launcher of each kernel, with Triton 3.6."""
    drivers = {}
    for backend, (_, folder) in DRIVERS.items():
        drivers[backend] = import_module(f"triton.backends.{folder}.driver")
    if not any(hasattr(each, "make_launcher") for each in drivers.values()):
        return
    with _without_hip(drivers["hip"]):
        for data in kernels:
            entry = json.loads(loads_own(data).source["json"])
            parts = Parts(**entry["parts"])
            backend = parts.target.partition(":")[0]
            yield backend, launcher_source(drivers[backend], parts, entry["metadata"])


@contextmanager
def _without_hip(driver: Any) -> Iterator[None]:
    """Let Triton write sources for AMD without the path of HIP's library, which it searches."""
    search = driver._get_path_to_hip_runtime_dylib
    driver._get_path_to_hip_runtime_dylib = lambda: HIP_PATH
    try:
        yield
    finally:
        driver._get_path_to_hip_runtime_dylib = search


def library_job(job: Job, *, cache: bool) -> Outcome:
    """Compile one library, in a worker process."""
    try:
        return Outcome(data=_library(job, cache=cache))
    except DevmodError as error:
        return Outcome(
            error=type(error).__name__, message=str(error), log=getattr(error, "log", "")
        )


def _library(job: Job, *, cache: bool) -> bytes:
    """Return the library of a source.

    Raises
    ------
    CompileError
        There is no C compiler, no header of Python, or the compiler refuses the source.
    """
    compiler = environment_text("CC") or next(filter(None, map(find_program, _COMPILERS)), "")
    include = sysconfig.get_paths()["include"]
    if not compiler:
        raise CompileError("no C compiler was found (gcc, clang, or CC)")
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise CompileError("the headers of Python are not installed")
    name = library_name(job.kernel, job.source)
    key = DiskCache.key("library", devmod.__version__, name, compiler)
    if cache:
        data = _CACHE.read(key)
        if data is not None:
            return data
    triton = import_triton(job.target)
    folder = os.path.join(str(triton.__path__[0]), "backends", DRIVERS[job.target][1], "include")
    source = f"{job.kernel}.c"
    with temporary_folder() as work:
        text = job.source.replace(HIP_PATH, HIP_PLACE)
        Path(work, source).write_text(text, encoding="utf-8")
        command = [compiler, "-O3", "-shared", "-fPIC", "-Wno-psabi", source]
        if job.target == "cuda":
            # Only the name of the driver's library gets into this one.
            empty = [compiler, "-shared", "-x", "c", os.devnull, f"-Wl,-soname,{_NEEDS}"]
            _run(empty, _NEEDS, work)
            # Some linkers drop a library that defines nothing.
            command += ["-Wl,--no-as-needed", f"-L{work}", f"-l:{_NEEDS}"]
        command += [f"-I{folder}", f"-I{include}"]
        # No path of this machine gets into it.
        command += [f"-ffile-prefix-map={each}=." for each in (folder, include)]
        command += ["-Wl,--build-id=none", "-s"]
        _run(command, name, work)
        data = Path(work, name).read_bytes()
    if cache:
        _CACHE.write(key, data)
    return data


def _run(command: list[str], output: str, work: str) -> None:
    name = os.path.basename(command[0])
    status, text = run_program([*command, "-o", output], work, name=name, kind="")
    if status:
        first = text.strip().partition("\n")[0]
        raise CompileError(f"{name} failed: {first}", log=text)
