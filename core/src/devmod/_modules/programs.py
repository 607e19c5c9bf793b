"""Reading the programs of a module.

devmod-readers has their grammar. It is imported by its name, as an entry point: core imports no
other wheel.
"""

from __future__ import annotations

from typing import Any

from devmod import _import_wheel
from devmod._modules.choice import describe_candidate, interface_of, program_error, unknown_needs
from devmod._modules.module import Module
from devmod._plugins.specs import find_spec
from devmod._values.features import newer_text
from devmod.errors import FormatError, pip_install, quote_name
from devmod.targets import PROGRAM


def newer_program(name: str, module: Module) -> FormatError | None:
    """Return the error of a program that only a newer devmod reads; None for all others. Raise
    FormatError if the program is damaged.
    """
    spec = find_spec(PROGRAM)
    if spec is not None and module.format not in spec.formats:
        advice = pip_install("--upgrade devmod-core devmod-runtime")
        return FormatError(
            f"the programs have the format {quote_name(module.format)}, which a newer devmod reads: {advice}",
            kind=PROGRAM,
        )
    unknown = unknown_needs(module.functions[name].interface)
    if unknown:
        return program_error(name, newer_text(unknown))
    return None


def read_program(name: str, module: Module) -> Any:
    """Return a program of a module as `devmod_readers.programs.Program`. Its kernels are not
    checked.

    Raises
    ------
    FormatError
        The program is invalid, or has a format that is unknown here.
    ToolchainNotFoundError
        devmod-readers is not installed.
    """
    readers = _readers()
    code: Any = module.code  # type: ignore[attr-defined]  # of a module with bytes
    newer = newer_program(name, module)
    if newer is not None:
        raise newer
    if name not in code:
        raise program_error(name, "has no steps")
    program = readers.read_program(name, module.functions[name], code[name])
    readers.check_names(program)
    return program


def candidate_of(kernel: str, module: Module) -> Any:
    """Return a candidate of a kernel as `devmod_readers.programs.Candidate`, for
    `check_kernels`.
    """
    spec = find_spec(module.kind)
    return _readers().Candidate(
        describe_candidate(module), spec is None or spec.has_grid, interface_of(module, kernel)
    )


def _readers() -> Any:
    return _import_wheel(
        "devmod_readers.programs", "programs cannot be read here", "devmod_readers"
    )
