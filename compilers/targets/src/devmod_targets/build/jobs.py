"""The compile of one job, in this process or in a worker. Its input and its result are strings,
bytes and numbers.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import get_ident
from typing import Any, NamedTuple

import devmod
from devmod import Target
from devmod.backend import RLock, temporary_folder
from devmod.errors import CompileError, DevmodError, describe_error
from devmod.plugins import lookup
from devmod_targets._paths import below, with_slashes
from devmod_targets.authoring import CompilerReport
from devmod_targets.build.closure import Closure
from devmod_targets.build.plan import Job
from devmod_targets.build.result import UNVALIDATED, Outcome
from devmod_targets.build.toolchains import toolchain_of
from devmod_targets.compilation import compile_source, files_read, left_out_of, validation_of

#: Recording warnings changes a table of the whole process.
_lock = RLock()


class PackedFile(NamedTuple):
    """A file that travels with a job.

    Attributes
    ----------
    name
        The path relative to the folder of the job on the worker, with slashes.
    path
        The path on this machine.
    data
        The contents; or the name of an earlier file, to which this one is a link.
    """

    name: str
    path: str
    data: bytes | str


class _SourcePath:
    """A path of a file. pathlib takes longer to import than a small compile."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path


def attempt(job: Job, files: Sequence[PackedFile] = (), *, with_sources: bool = False) -> Outcome:
    """Compile a job. An exception of the job is in the result: its class may be in a package that
    the caller lacks.

    Parameters
    ----------
    job
        The job.
    files
        The files of the job, for a worker that cannot read this machine's.
    with_sources
        Whether the file has the sources of the module.
    """
    if not files:
        return _attempt(job, with_sources)
    toolchain = toolchain_of(job)
    with temporary_folder() as folder:
        folder = os.path.realpath(folder)
        paths = {}
        for each in files:
            path = below(folder, each.name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if isinstance(each.data, str):  # a compiler may treat a link in another way than a copy
                os.link(below(folder, each.data), path)
            else:
                with open(path, "wb") as file:
                    file.write(each.data)
            paths[path] = each.path
        job = replace(job, folder=below(folder, job.folder))
        for path in (job.folder, *job.include_paths):
            os.makedirs(path, exist_ok=True)
        outcome = _attempt(job, with_sources)._replace(toolchain=toolchain)
        if outcome.files is None:
            return outcome
        originals = {_original(path, paths): digest for path, digest in outcome.files.items()}
        return outcome._replace(files=originals)


def _original(path: str, paths: Mapping[str, str]) -> str:
    """Return the path on the client of a file that a worker has written; another path as it is."""
    folder, name = os.path.split(path)
    return paths.get(os.path.join(os.path.realpath(folder), name), path)


def pack_files(job: Job, closure: Closure) -> tuple[Job, tuple[PackedFile, ...]]:
    """Return a job with paths relative to a folder that a worker creates, and the files to write
    there.
    """
    source = next(iter(closure.files))
    folders = [os.path.realpath(os.path.abspath(each)) for each in job.include_paths]
    root = os.path.realpath(job.folder)
    base = os.path.commonpath(
        [root, os.path.dirname(source), *folders, *map(os.path.dirname, closure.files)]
    )

    def relative(path: str, start: str = base) -> str:
        return with_slashes(path, start)

    packed = replace(
        job,
        folder=relative(root),
        source=relative(source, root),
        include=tuple(relative(each, root) for each in folders),
    )
    first: dict[tuple[object, ...], str] = {}
    files = []
    for path, file in closure.files.items():
        own = relative(path)
        name = first.setdefault(file.state, own)
        files.append(PackedFile(own, path, file.data if name == own else name))
    return packed, tuple(files)


def _attempt(job: Job, with_sources: bool) -> Outcome:
    start = _cpu_time()
    own = get_ident()
    show = warnings.showwarning
    records = []

    def keep(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if get_ident() == own:
            records.append((issubclass(category, CompilerReport), str(message)))
        else:  # of a program that builds in one thread, and works in others
            show(message, category, *place, **more)

    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = keep
        try:
            target = Target.parse(job.target)
            spec = lookup("devmod.targets", target.kind)
            arguments = job.arguments()
            module = compile_source(
                spec,
                _SourcePath(job.path),
                target,
                **arguments,
                runtime=False,
                listings=with_sources,
                root=job.folder,
            )
            notes: tuple[str, ...] = ()
            unvalidated = validation_of(module)[1]
            if unvalidated:
                notes = (f"{UNVALIDATED}{unvalidated}",)
            data = devmod.dumps(module, with_sources=with_sources)
            outcome = Outcome(data, files=files_read(module), reports=notes)
            left_out = left_out_of(module)
            if left_out:
                names = [f"{name!r} ({place})" for name, place in left_out.items()]
                message = f"left out {', '.join(names)}, for --partial"
                outcome = outcome._replace(error=CompileError.__name__, message=message)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything; the build goes on with the other jobs
            outcome = _failed(error, job.kernel)
    texts: dict[bool, dict[str, None]] = {False: {}, True: {}}
    for is_report, text in records:
        texts[is_report][text] = None
    reports = dict.fromkeys((*texts[True], *outcome.reports))
    return outcome._replace(
        warnings=tuple(texts[False]), reports=tuple(reports), seconds=_cpu_time() - start
    )


def _failed(error: Exception, kernel: str) -> Outcome:
    """Return the outcome of a job that raised. The message has the words of the manifest."""
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
        if error.filename is not None:
            text = f"{error.filename}: {text}"
    elif isinstance(error, DevmodError):
        from devmod_targets.build.error_texts import in_manifest

        text = in_manifest(error, kernel)
    else:
        text = describe_error(error)
    for note in getattr(error, "__notes__", ()):
        text += f"\n{note}"
    log = error.log if isinstance(error, CompileError) else ""
    return Outcome(error=type(error).__name__, message=text, log=log)


def _cpu_time() -> float:
    """Return the CPU time of this process and of the programs that it has run."""
    own = time.process_time()
    if sys.platform == "win32":
        return own
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own + children.ru_utime + children.ru_stime
