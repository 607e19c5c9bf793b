"""Kernels of PTX as text for LLVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devmod_simulators.ptx.compiled import accesses  # noqa: F401  # registers its instructions
from devmod_simulators.ptx.compiled.emit import Emitter
from devmod_simulators.ptx.compiled.operations import execute
from devmod_simulators.ptx.compiled.together import END_OF
from devmod_simulators.ptx.decoder import Decoder

if TYPE_CHECKING:
    from devmod_simulators.ptx.program import Program


def translate(program: Program, *, inlines: bool = False) -> Emitter:
    """Return the code of a kernel, which has that of each access to memory or calls for them.

    Raises
    ------
    UnsupportedError
        The engine does not compile it.
    """
    e = Emitter(program, inlines=inlines)
    e.region.units = [0]
    for unit in e.graph.units:
        e.unit = unit
        e.copy = unit.copy
        e.new_region(f"%m{unit.number}")
        e.heads[unit.number] = e.region.number
        for instruction in unit.instructions:
            if e.is_constant(instruction):
                continue
            e.instruction = instruction
            e.set_guard()
            execute(e, Decoder(program, e.copy.code.function, instruction))
        e.instruction = None
        e.guard = ""
        END_OF[unit.kind](e)
        e.region.units = unit.following() or [-1]
    e.assemble()
    return e
