"""The library that Triton compiles for its driver of CUDA, on each machine where it launches: a
machine without a C compiler takes it from the file.

That of AMD's has the path of a library of the machine.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from devmod import Target
from devmod.backend import environment_text, find_program, temporary_folder
from devmod.errors import CompileError
from devmod_readers.triton import DRIVER_LIBRARY, driver_library_name, driver_source
from devmod_targets.authoring._process import run_program
from devmod_targets.triton.kernels import import_triton

#: The driver's library, which a build box does not have.
_NEEDS = "libcuda.so.1"
_COMPILERS = ("gcc", "clang", "cc")


def build_library(targets: Iterable[str]) -> dict[str, bytes]:
    """Return the library by the name that `devmod.interop.triton.serve` looks for: one for the
    source of this Triton, the ABI of this Python and this platform. {}: the targets need none.

    Raises
    ------
    CompileError
        There is no C compiler, no header of Python, or the compiler refuses the source.
    """
    if not any(Target.parse(target).kind == "cuda" for target in targets):
        return {}
    compiler = environment_text("CC") or next(filter(None, map(find_program, _COMPILERS)), "")
    include = sysconfig.get_paths()["include"]
    if not compiler:
        raise _error("no C compiler was found (gcc, clang, or CC)")
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise _error("the headers of Python are not installed")
    source = driver_source(import_triton("cuda"))
    folder = os.path.dirname(source)
    with temporary_folder() as work:
        # Only the name of the driver's library gets into this one.
        empty = [compiler, "-shared", "-x", "c", os.devnull, f"-Wl,-soname,{_NEEDS}"]
        _run(empty, _NEEDS, work)
        command = [compiler, "-O3", "-shared", "-fPIC", "-Wno-psabi", source]
        # Some linkers drop a library that defines nothing.
        command += ["-Wl,--no-as-needed", f"-L{work}", f"-l:{_NEEDS}"]
        command += [f"-I{folder}/include", f"-I{include}"]
        # No path of this machine gets into it.
        command += [f"-ffile-prefix-map={each}=." for each in (folder, include)]
        command += ["-Wl,--build-id=none", "-s"]
        _run(command, DRIVER_LIBRARY, work)
        data = Path(work, DRIVER_LIBRARY).read_bytes()
    return {driver_library_name(source): data}


def _run(command: list[str], output: str, work: str) -> None:
    name = os.path.basename(command[0])
    try:
        status, text = run_program([*command, "-o", output], work, name=name, kind="cuda")
    except CompileError as error:
        raise _error(str(error), error.log) from error
    if status:
        first = text.strip().partition("\n")[0]
        raise _error(f"{name} failed: {first}", text)


def _error(reason: str, log: str = "") -> CompileError:
    return CompileError(
        f"the file has no library of Triton's driver, so each machine compiles it: {reason}",
        kind="cuda",
        log=log,
    )
