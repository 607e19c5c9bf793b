"""A file with all kernels of a record: for Triton itself (`devmod.interop.triton.serve`), and for
devmod.

Each kernel is a module of its own. Its function has the name ``add.IDENTITY``, and its source
"json" has the parts of the identity and Triton's metadata. The libraries that Triton compiles for
its drivers are constants, and so are the choices of autotune.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import devmod
from devmod import Target
from devmod.backend import DiskCache, loads_own, module_of
from devmod.errors import DevmodError, FormatError, describe_error, list_names
from devmod_readers.triton import (
    CHOICES,
    MAX_BYTES,
    Choice,
    Parts,
    Specialization,
    choices_text,
    read_record,
)
from devmod_targets.build.plan import Job
from devmod_targets.build.pool import Pool
from devmod_targets.build.result import Outcome
from devmod_targets.interop.triton import payload_of
from devmod_targets.triton.driver_library import build_libraries
from devmod_targets.triton.kernels import (
    compile_specialization,
    find_function,
    identify,
    import_triton,
    payload_format,
    processor_text,
)

#: The kernels by what their code depends on. The number changes with the form of an entry.
_CACHE = DiskCache("triton")
_FORMAT = "devmod triton 1"
#: Fields of Triton's metadata that are the machine's.
_DROPPED = ("hash", "extern_libs")
_PARTS = ".part"
#: Triton ends its process for some types that no launch has.
_CRASH = (
    "Triton crashed, or the machine has too little memory. Correct the types in the record, or record again; or try fewer processes "
    "(-j 1)"
)


def variants_of(targets: Sequence[str]) -> list[str]:
    """Return the targets with one architecture each.

    Raises
    ------
    CompileError
        Triton does not compile for a target.
    """
    result = []
    for text in targets:
        for variant in Target.parse(text).variants():
            payload_format(variant)
            result.append(str(variant))
    return list(dict.fromkeys(result))


def read_records(
    paths: Sequence[str],
) -> tuple[list[Specialization], list[Choice], list[str]]:
    """Return the kernels of records, each once, the choices of autotune, and a line for each record
    of another version of Triton than this one, whose choices are left out.

    Raises
    ------
    FormatError
        A file is no record.
    ToolchainNotFoundError
        Triton is not installed.
    """
    version = str(import_triton("").__version__)
    kernels = {}
    choices = []
    lines = []
    for path in paths:
        with open(path, "rb") as file:
            recorded_by, found, chosen = read_record(file.read(MAX_BYTES + 1), path)
        if recorded_by != version:
            lines.append(
                f"{path} was recorded with Triton {recorded_by}, and {version} compiles it: a program with {recorded_by} uses none of it"
            )
        else:
            choices += chosen
        kernels.update({str(kernel): kernel for kernel in found})
    return list(kernels.values()), choices, lines


@contextmanager
def importing_from(*folders: str) -> Iterator[None]:
    """Import from folders first in this process, whose paths the workers have too."""
    before = list(sys.path)
    sys.path[:0] = map(os.path.abspath, folders)
    try:
        yield
    finally:
        sys.path[:] = before


def constants_of(
    variants: Sequence[str],
    kernels: Sequence[bytes],
    choices: Sequence[Choice],
    workers: int,
    *,
    cache: bool = True,
) -> tuple[dict[str, bytes], list[str]]:
    """Return the constants of a file: the libraries of Triton's drivers, and autotune's choices for
    the processors of the targets. There is a line for each reason why a library is missing.
    """
    constants, lines = build_libraries(variants, kernels, workers, cache=cache)
    processors = {processor_text(Target.parse(each)) for each in variants}
    own = [each for each in choices if each.gpu.rpartition(":")[0] in processors]
    if own:
        constants[CHOICES] = choices_text(str(import_triton("").__version__), own)
    return constants, lines


def record_modules(
    paths: Sequence[str],
    folders: Sequence[str],
    targets: Sequence[str],
    workers: int,
    *,
    cache: bool,
) -> tuple[list[devmod.Module], list[str]]:
    """Compile the kernels of the records of a manifest, and return their modules, and a line for
    each kernel that cannot be compiled.

    Parameters
    ----------
    paths
        The records.
    folders
        The folders from which the modules of the functions are imported.
    targets
        The targets.
    workers
        The largest number of processes.
    cache
        Whether to use the cache.

    Raises
    ------
    FormatError
        No kernel can be compiled.
    """
    variants = variants_of(targets)
    kernels, choices, lines = read_records(paths)
    data = []
    with importing_from(*folders):
        for kernel, target, outcome in compile_all(kernels, variants, workers, cache=cache):
            if outcome.error:
                lines.append(f"failed for {target}: {kernel}: {outcome.message}")
            else:
                data.append(outcome.data)
    if not data:
        reasons = "; ".join(lines[:3]) or "they have none"
        raise FormatError(f"no kernel of {list_names(paths)} could be compiled: {reasons}")
    constants, problems = constants_of(variants, data, choices, workers, cache=cache)
    return modules_of(data, constants), [*lines, *problems]


def compile_all(
    kernels: Sequence[Specialization], targets: Sequence[str], workers: int, *, cache: bool = True
) -> Iterator[tuple[Specialization, str, Outcome]]:
    """Compile each kernel for each target in worker processes, and yield the outcomes as they come.
    What cannot be compiled has an error in its outcome.
    """
    jobs = []
    pairs = []
    for kernel in kernels:
        for target in targets:
            text = json.dumps(kernel._asdict())
            jobs.append(Job(kernel.function, "", text, target))
            pairs.append((kernel, target))
    with Pool(workers, compile_job, cache=cache) as pool:
        for number, outcome in pool.run(jobs):
            if outcome.error == "WorkerError":
                outcome = outcome._replace(message=_CRASH)
            yield (*pairs[number], outcome)


def compile_job(job: Job, *, cache: bool) -> Outcome:
    """Compile one kernel for one target, in a worker process."""
    began = time.process_time()
    try:
        kernel = Specialization(**json.loads(job.source))
        data = _compile(find_function(kernel.function), kernel, job.target, cache=cache)
    except DevmodError as error:
        message = str(error).partition("\n")[0]
        return Outcome(error=type(error).__name__, message=message, log=getattr(error, "log", ""))
    except Exception as error:  # noqa: BLE001 - a function of strangers
        return Outcome(error=type(error).__name__, message=describe_error(error))
    return Outcome(data=data, seconds=time.process_time() - began)


def _compile(function: Any, kernel: Specialization, text: str, *, cache: bool) -> bytes:
    """Return the file of a kernel, from the cache if that has it."""
    target = Target.parse(text)
    key = ""
    if cache:
        parts = identify(function, kernel, target)
        key = DiskCache.key(_FORMAT, devmod.__version__, *parts, text)
        data = _CACHE.read(key)
        if data is not None:
            return data
    compiled, parts = compile_specialization(function, kernel, target)
    module = module_of(_payload(compiled, parts, target), runtime=False)
    data = devmod.dumps(module, with_sources=True)
    if key:
        _CACHE.write(key, data)
    return data


def _payload(compiled: Any, parts: Parts, target: Target) -> Any:
    payload = payload_of(compiled, payload_format(target))
    metadata = {
        name: value for name, value in compiled.metadata._asdict().items() if name not in _DROPPED
    }
    text = json.dumps(
        {"parts": parts._asdict(), "metadata": metadata}, default=vars, sort_keys=True
    )
    (info,) = payload.fmap.values()
    return payload.replace(fmap={f"{parts.symbol}.{parts.identity}": info}, source={"json": text})


def compile_here(
    function: Any, kernel: Specialization, targets: Sequence[str], folder: str
) -> list[str]:
    """Compile a kernel in the program that launches it, and write its files to a folder. Return a
    line for each target for which it cannot be compiled.
    """
    lines = []
    for target in targets:
        try:
            data = _compile(function, kernel, target, cache=True)
        except DevmodError as error:
            message = str(error).partition("\n")[0]
            lines.append(f"{kernel}: {message}")
            continue
        path = os.path.join(folder, f"{os.urandom(16).hex()}{_PARTS}")
        Path(path).write_bytes(data)
    return lines


def compiled_in(folder: str) -> list[bytes]:
    """Return the files of `compile_here`."""
    return [path.read_bytes() for path in sorted(Path(folder).glob(f"*{_PARTS}"))]


def write(
    path: str, kernels: Sequence[bytes], constants: Mapping[str, bytes], compress: str | None = None
) -> int:
    """Write the files of kernels as one, and return their number. A kernel that is there twice, or
    in the same form, is written once.
    """
    modules = modules_of(kernels, constants)
    root = modules[0] if len(modules) == 1 else devmod.bundle(*modules, mixed=True)
    devmod.save(root, path, with_sources=True, compress=compress)
    return len(modules) - bool(constants)


def modules_of(kernels: Sequence[bytes], constants: Mapping[str, bytes]) -> list[devmod.Module]:
    """Return the modules of the files of kernels, each once, and behind them one with `constants`,
    if there are any.
    """
    modules: dict[tuple[str, ...], devmod.Module] = {}
    for data in kernels:
        module = loads_own(data)
        modules.setdefault((module.kind, module.format, *module.functions), module)
    ordered = [modules[key] for key in sorted(modules)]
    if constants:
        ordered.append(devmod.const_loader(dict(constants), {name: [name] for name in constants}))
    return ordered
