"""`devmod build --watch`: build again after each change of an input."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from devmod.backend import cache_dir
from devmod.commands import echo, echo_lines
from devmod.errors import DevmodError, describe_error
from devmod_targets.build.build import constant_files, job_closure
from devmod_targets.build.closure import SourceTree
from devmod_targets.build.document import MANIFEST_NAME, PYPROJECT
from devmod_targets.build.packages import import_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from devmod_targets.build.plan import Plan

#: Where any file may be an input: the suffixes of the build's own output, and of what editors and Python write beside sources.
_IGNORED = (".devmod", ".partial", ".pyc", ".swp", ".swx", "~", ".tmp")


def watch_manifest(
    manifest: str | os.PathLike[str],
    plan: Callable[[], Plan],
    build: Callable[[], object],
    *,
    changes: Callable[..., Any] | None = None,
) -> None:
    """Build, and build again after each change of an input. Ctrl-C ends it.

    Parameters
    ----------
    manifest
        The manifest, or its folder.
    plan, build
        Reads the manifest; builds once. The errors of `build` are printed.
    changes
        Yields sets of changes for paths, as `watchfiles.watch` does.

    Raises
    ------
    DevmodError
        The package watchfiles is not installed.
    """
    if changes is None:
        try:
            changes = import_module("watchfiles").watch
        except (ImportError, AttributeError) as error:
            why = import_problem(error, "watchfiles", "devmod-targets[build-watch]")
            raise DevmodError(f"--watch cannot be used: {why}") from None
    assert changes is not None
    inputs = _Inputs(manifest, plan)
    while True:
        watched = inputs
        built = False
        # The first, empty batch comes when the folders are watched: no change is lost during the first build.
        for batch in changes(
            *sorted(watched.folders),
            watch_filter=lambda _, path: inputs.matches(path),  # noqa: B023 - those of the last build
            recursive=watched.recursive,
            ignore_permission_denied=True,
            debounce=200,
            step=50,
            rust_timeout=500,
            yield_on_timeout=True,
        ):
            if batch:
                paths = [path for _, path in batch]
                if inputs.problem and not any(map(inputs.has_file, paths)) and inputs.problem == _Inputs(manifest, plan).problem:
                    continue
                names = sorted({os.path.relpath(path) for path in paths})
                echo(f"Changed: {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}", err=True)
            elif built:
                continue
            _build(build)
            built = True
            inputs = _Inputs(manifest, plan)
            if (inputs.folders, inputs.recursive) != (watched.folders, watched.recursive):
                break  # the next pass watches the new folders, and builds what has changed meanwhile
            echo("Waiting for a change. Ctrl-C ends it.", err=True)
        else:
            return


def _build(build: Callable[[], object]) -> None:
    try:
        build()
    except (DevmodError, OSError) as error:
        echo_lines(f"devmod: error: {_text(error)}", err=True)


class _Inputs:
    """What a build reads: files, names that would be a file's if it existed, and folders in which any file may be an include.

    Attributes
    ----------
    folders, recursive
        The folders to watch, and whether with all folders below them.
    problem
        The mistakes of the manifest; "" if it has none. Then any file of its folder may mend it.
    """

    def __init__(self, manifest: str | os.PathLike[str], plan: Callable[[], Plan]) -> None:
        self.folders: set[str] = set()
        self.problem = ""
        self._paths: set[str] = set()
        self._trees: set[str] = set()
        name = os.path.abspath(os.fsdecode(manifest))
        for each in [os.path.join(name, own) for own in (MANIFEST_NAME, PYPROJECT)] if os.path.isdir(name) else [name]:
            self._add(each)
        try:
            self._add_plan(plan())
        except (DevmodError, OSError) as error:
            self.problem = _text(error)
            self._trees |= self.folders

    @property
    def recursive(self) -> bool:
        return bool(self._trees)

    def has_file(self, path: str) -> bool:
        """Return whether a path is a file that the build reads, or would read if it existed."""
        return path in self._paths or os.path.realpath(path) in self._paths

    def matches(self, path: str) -> bool:
        """Return whether a change of a path may change the build."""
        if self.has_file(path):
            return True
        real = os.path.realpath(path)
        tree = next((each for each in self._trees if real.startswith(os.path.join(each, ""))), None)
        return tree is not None and not _is_own(real, os.path.relpath(real, tree).split(os.sep))

    def _add_plan(self, plan: Plan) -> None:
        tree = SourceTree()
        for path in constant_files(plan.manifest):
            self._add(path)
        for job in plan.jobs:
            self._add(job.path)
            closure = job_closure(job, tree)
            for path in (*closure.files, *closure.missing):
                self._add(path)
            if not closure.is_known:  # a macro may name any file
                self._trees |= {os.path.realpath(place) for place in (os.path.dirname(job.path), *job.include_paths)}
                self.folders |= self._trees

    def _add(self, path: str) -> None:
        """Add a file, which need not exist, and the folder in which it, or the first missing folder above it, appears."""
        for each in (os.path.abspath(path), os.path.realpath(path)):
            name = each
            while name not in self._paths:
                self._paths.add(name)
                name = os.path.dirname(name)
                if os.path.isdir(name):
                    self.folders.add(name)
                    break


def _is_own(path: str, parts: list[str]) -> bool:
    """Return whether the build itself, an editor or version control writes a file. The build writes its output, caches and messages."""
    if path.endswith(_IGNORED) or any(part.startswith((".", "devmod-tmp-")) or part == "__pycache__" for part in parts):
        return True
    if cache_dir() and path.startswith(os.path.join(os.path.realpath(cache_dir()), "")):
        return True
    try:
        return any(os.path.samestat(os.stat(path), os.fstat(number)) for number in (1, 2))
    except OSError:
        return False


def _text(error: DevmodError | OSError) -> str:
    return str(error) if isinstance(error, DevmodError) else describe_error(error)
