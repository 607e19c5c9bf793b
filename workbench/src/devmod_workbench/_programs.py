"""Checking a program against the kernels of its file."""

from __future__ import annotations

from devmod import Module
from devmod._modules.choice import program_kernels
from devmod._modules.module import usable_function
from devmod._modules.programs import candidate_of
from devmod.backend import read_program


def check_program(name: str, module: Module) -> None:
    """Check a program of a module against each candidate of its kernels that can be read here.

    Raises as `read_program`.
    """
    program = read_program(name, module)
    from devmod_readers.programs import check_kernels  # without the wheel, `read_program` raises

    candidates = {}
    for kernel, modules in program_kernels(name, module).items():
        usable = [each for each in modules if usable_function(each.functions, kernel)]
        if not usable:
            return  # the kernel's own errors are those of its candidates
        candidates[kernel] = [candidate_of(kernel, each) for each in usable]
    check_kernels(program, candidates)
