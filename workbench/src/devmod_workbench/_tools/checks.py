"""Sources that are compiled for the simulated GPU, whose checks find faults of kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from devmod import Array, Module, device
from devmod.backend import environment_text
from devmod.errors import CompileError, DevmodError, not_installed
from devmod.targets import CHECKS_VARIABLE, SIMULATED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_runtime._launch.function import Function

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


def check_simulator(what: str) -> None:
    """Raise DevmodError if the simulated GPU, which something needs, is not installed."""
    if find_spec("devmod_simulators") is None:
        missing = f"{what} needs the simulated GPU: devmod-simulators"
        raise DevmodError(not_installed(missing, "devmod-simulators"))


def is_sanitized(device_name: str) -> bool:
    """Return whether launches on a device, such as "cuda:0", are checked."""
    return device_name.startswith(f"{SIMULATED}:") and bool(environment_text(CHECKS_VARIABLE))


def run_with_checks(command: str, checks: str) -> int:
    """Run this command line below `devmod simulate --sanitize`, and return its exit status. The
    command gets the option --simulated.
    """
    check_simulator("--sanitize")
    words = sys.argv[1:]
    words.insert(words.index(command) + 1, "--simulated")
    return int(import_module("devmod_simulators._command").run_with_checks(words, checks))


def checked_call(own: Function, file: str, what: str) -> Callable[[Mapping[str, Any]], None]:
    """Return what calls a function on the simulated GPU, with the arguments of a call, and raises
    SanitizeError for a fault. `file` is its source, and `what` needs it.

    Raises
    ------
    NotCheckedError
        As `compile_for_checks`.
    DeviceNotFoundError
        This process uses a real driver of the kind already.
    """
    check_simulator(what)
    sanitize = import_module("devmod_simulators").sanitize
    with sanitize():  # PTX gets the lines of the source
        module = compile_for_checks(file, own.kind)
    function = module[own.name].on(device(SIMULATED))
    block = own.block

    def call(arguments: Mapping[str, Any]) -> None:
        values: dict[str, Any] = {}
        if block is not None:
            values["block"] = block
        for name, value in arguments.items():
            values[name] = value.numpy() if isinstance(value, Array) else value
        with sanitize():
            function(**values)

    return call
