"""Sources that are compiled for the simulated GPU, whose checks find faults of kernels."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from devmod import Module
from devmod.errors import CompileError, DevmodError, not_installed

#: The exit status of a command that could not check a source.
NOT_CHECKED = 3


class NotCheckedError(CompileError):
    """A source cannot be compiled for the simulated GPU, so nothing was checked."""


def compile_for_checks(file: str, target: str | None) -> Module:
    """Return the module of a source for the simulated GPU.

    Raises
    ------
    NotCheckedError
        The source has errors, or a construct that cannot be checked, or what compiles it is not
        installed.
    """
    if find_spec("devmod_targets") is None:
        raise NotCheckedError(
            not_installed("--sanitize compiles the source: devmod-targets", "devmod-targets")
        )
    try:
        module: Module = import_module("devmod_targets.simulated").compile_for_checks(
            Path(file), target or ""
        )
        return module
    except CompileError as error:
        raise NotCheckedError(
            f"{file} was not checked, since it cannot be compiled for the simulated GPU: {error}",
            log=error.log,
            kind=error.kind,
        ) from error


def check_simulator() -> None:
    """Raise DevmodError if the simulated GPU is not installed."""
    if find_spec("devmod_simulators") is None:
        raise DevmodError(
            not_installed(
                "--sanitize needs the simulated GPU: devmod-simulators", "devmod-simulators"
            )
        )
