"""`devmod build --watch`: build again after each change."""

from __future__ import annotations

import os
from importlib import import_module

from devmod.commands import echo, echo_lines
from devmod.errors import DevmodError, describe_error
from devmod_targets.build.packages import import_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod_targets.build.result import BuildResult

#: Changes of these files start no build: the build's own output, and what editors and Python write beside sources.
_IGNORED = (".devmod", ".partial", ".pyc", ".swp", ".swx", "~", ".tmp")


def watch_manifest(
    manifest: str | os.PathLike[str], build: Callable[[], BuildResult], *, changes: Callable[..., Any] | None = None
) -> None:
    """Build, and build again after each change of a file below the folders of the manifest and its include folders. Ctrl-C ends it.

    Parameters
    ----------
    manifest
        The manifest, or its folder.
    build
        Builds once. Its errors are printed.
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
        except ImportError as error:
            why = import_problem(error, "watchfiles", 'pip install "devmod-targets[build-watch]"')
            raise DevmodError(f"--watch cannot be used: {why}") from None
    name = os.fspath(manifest)
    folders = {os.path.abspath(name if os.path.isdir(name) else os.path.dirname(name))}
    while True:
        watched = frozenset(folders)
        built = False
        # The first, empty batch comes when the folders are watched: no change is lost during the first build.
        assert changes is not None
        for batch in changes(*sorted(watched), watch_filter=_is_input, debounce=200, step=50, rust_timeout=500, yield_on_timeout=True):
            if batch:
                names = sorted({os.path.relpath(path) for _, path in batch})
                echo(f"Changed: {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}", err=True)
            elif built:
                continue
            folders |= _build(build)
            built = True
            if folders != watched:
                break  # the next pass watches the new folders too, and builds what has changed meanwhile
            echo("Waiting for a change. Ctrl-C ends it.", err=True)
        else:
            return


def _build(build: Callable[[], BuildResult]) -> set[str]:
    """Build, and return the folders of the include files."""
    try:
        result = build()
    except (DevmodError, OSError) as error:
        echo_lines(f"devmod: error: {error if isinstance(error, DevmodError) else describe_error(error)}", err=True)
        return set()
    return {path for each in result.results for path in each.job.include_paths if os.path.isdir(path)}


def _is_input(_: object, path: str) -> bool:
    parts = path.split(os.sep)
    return not parts[-1].endswith(_IGNORED) and not any(part in (".git", "__pycache__", ".venv") for part in parts)
