"""Reading and checking the programs of a module.

devmod-readers has their grammar. It is imported by its name, as an entry point: core imports no other wheel.
"""

from __future__ import annotations

from devmod import _import_wheel
from devmod._modules.choice import describe_candidate, interface_of, program_kernels
from devmod._plugins.specs import find_spec
from devmod._values.requirements import Requirements
from devmod.errors import FormatError, list_names, pip_install, quote_name
from devmod.targets import PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod._modules.module import Module
    from devmod._values.info import Interface


def read_program(name: str, module: Module) -> Any:
    """Return a program of a module as `devmod_readers.programs.Program`. Its kernels are not checked.

    Raises
    ------
    FormatError
        The program is invalid, or has a format that is unknown here.
    ToolchainNotFoundError
        devmod-readers is not installed.
    """
    readers, spec = _readers(), find_spec(PROGRAM)
    code: Any = module.code  # type: ignore[attr-defined]  # of a module with bytes
    advice = pip_install("--upgrade devmod-core devmod-runtime")
    if spec is not None and module.format not in spec.formats:
        raise FormatError(f"the programs have the format {quote_name(module.format)}, which a newer devmod reads: {advice}", kind=PROGRAM)
    interface = module.functions[name].interface
    if interface is not None and interface.needs:
        raise FormatError(
            f"the program {quote_name(name)} needs {list_names(interface.needs)}, which a newer devmod reads: {advice}",
            kind=PROGRAM,
            function=name,
        )
    if name not in code:
        raise FormatError(f"the program {quote_name(name)} has no steps", kind=PROGRAM, function=name)
    program = readers.read_program(name, module.functions[name], code[name])
    readers.check_names(program)
    return program


def check_program(name: str, module: Module) -> None:
    """Check a program of a module against each candidate of its kernels. Raises as `read_program`."""
    program = read_program(name, module)
    candidates = {kernel: [candidate_of(kernel, each) for each in modules] for kernel, modules in program_kernels(name, module).items()}
    _readers().check_kernels(program, candidates)


def program_requirements(program: Any, interfaces: Mapping[str, Interface | None]) -> Requirements:
    """Return what a program requires beside its kernels: its arrays and its blocks of fixed size.

    Parameters
    ----------
    program
        The program as `read_program` returns it.
    interfaces
        Those of its kernels. An array at an address is no storage buffer.
    """
    buffers = {
        kernel: {param.name for param in interface.params if param.kind == "buffer"} if interface is not None else set()
        for kernel, interface in interfaces.items()
    }
    bound: set[object] = set()
    clauses: dict[tuple[str, int], str] = {}
    for number, step in enumerate(program.steps, 1):
        bound.update(value for name, value in step.arguments.items() if name in buffers[step.kernel] and type(value) is str)
        if step.block and all(type(each) is int for each in step.block):
            x, y, z = (*step.block, 1, 1)[:3]
            clause = f"step {number} launches {step.kernel!r} in blocks of {x} × {y} × {z} threads"
            for amount in zip(("block_x", "block_y", "block_z", "block"), (x, y, z, x * y * z), strict=True):
                clauses.setdefault(amount, clause)
    for array in program.arrays():
        if not array.format and all(type(each) is int for each in array.shape):
            nbytes = array.nbytes(array.shape)
            for limit in ("array", "storage") if array.name in bound else ("array",):
                clauses.setdefault((limit, nbytes), f"the array {array.name!r} has {nbytes} bytes")
    return Requirements(clauses=tuple((*amount, clause) for amount, clause in clauses.items()))


def candidate_of(kernel: str, module: Module) -> Any:
    """Return a candidate of a kernel as `devmod_readers.programs.Candidate`, for `check_kernels`."""
    spec = find_spec(module.kind)
    return _readers().Candidate(describe_candidate(module), spec is None or spec.has_grid, interface_of(module, kernel))


def _readers() -> Any:
    return _import_wheel("devmod_readers.programs", "programs cannot be read here", "devmod_readers")
