"""Sources that are compiled for the simulated GPU, whose checks find faults of kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from threading import local
from typing import Any

from devmod import Array, Module, device
from devmod.backend import describe_value, environment_text
from devmod.errors import ArgumentError, CompileError, DevmodError, list_names, not_installed
from devmod.targets import CHECKS_VARIABLE, SIMULATED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy as np

    from devmod_runtime._launch.function import Function
else:
    from devmod.backend import np

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


class SourceChecks:
    """Calls the functions of a source on the simulated GPU, with its checks.

    Parameters
    ----------
    file
        The path of the source.
    what
        What needs the checks, for messages.

    Raises
    ------
    ArgumentError
        The source is not a path.
    DevmodError
        The simulated GPU is not installed.
    """

    def __init__(self, file: str | PathLike[str], what: str) -> None:
        if not isinstance(file, str | PathLike):
            raise ArgumentError(
                f'{what}: expected the path of the source, such as "k.cl", got {describe_value(file)}',
                argument="sanitize",
            )
        check_simulator(what)
        self._file = fspath(file)
        self._what = what
        #: The source by the kind that it is for.
        self._modules: dict[str, Module] = {}
        self._running = local()

    @property
    def is_running(self) -> bool:
        """Whether this thread is in a call of the source."""
        return getattr(self._running, "calls", False)

    def function_for(self, own: Function) -> Function:
        """Return the source's function in the place of another one.

        Raises
        ------
        NotCheckedError
            As `compile_for_checks`.
        ArgumentError
            The source has no such function.
        DeviceNotFoundError
            This process uses a real driver of the kind already.
        """
        module = self._modules.get(own.kind)
        if module is None:
            with import_module("devmod_simulators").sanitize():  # PTX gets the lines of the source
                module = compile_for_checks(self._file, own.kind)
            self._modules[own.kind] = module
        if own.name not in module.function_names:
            raise ArgumentError(
                f"{self._what}: {self._file} has no function {own.name!r}, so its launch was not checked; it has "
                f"{list_names(module.function_names)}",
                kind=own.kind,
                function=own.name,
                argument="sanitize",
            )
        return module[own.name].on(device(SIMULATED))

    def call(self, own: Function, arguments: Mapping[str, Any]) -> None:
        """Call the source's function with copies of the arguments of a call, by name.

        Raises
        ------
        SanitizeError
            A check has found a fault.
        """
        function = self.function_for(own)
        values: dict[str, Any] = {}
        if own.block is not None:
            values["block"] = own.block
        copies: dict[int, Any] = {}  # an array that is given twice is one array
        for name, value in arguments.items():
            if id(value) not in copies:
                copies[id(value)] = _copied(value)
            values[name] = copies[id(value)]
        self._running.calls = True
        try:
            with import_module("devmod_simulators").sanitize():
                function(**values)
        finally:
            self._running.calls = False


def _copied(value: Any) -> Any:
    """Return an argument for the simulated GPU: arrays and images are copied."""
    from devmod import Image, Sampler

    if isinstance(value, Array):
        return value.numpy()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Image):
        image = device(SIMULATED).image(value.shape, value.format, layers=value.layers)
        image.copy_from(value.numpy())
        return image
    if isinstance(value, Sampler):
        return device(SIMULATED).sampler(
            filter=value.filter, address=value.address, normalized=value.normalized
        )
    return value


def checked_call(
    own: Function, file: str | PathLike[str], what: str
) -> Callable[[Mapping[str, Any]], None]:
    """Return what calls a function on the simulated GPU, as `SourceChecks.call`. `file` is its
    source, and `what` needs it. The source is compiled now.
    """
    checks = SourceChecks(file, what)
    checks.function_for(own)
    return partial(checks.call, own)
