"""Where addresses come from: the parameter or the variable whose memory an instruction accesses, by
the flow of registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devmod_simulators.ptx.ptx_types import (
    Address,
    Function,
    Instruction,
    Name,
    Register,
    Vector,
)

if TYPE_CHECKING:
    from devmod_simulators.ptx.program import Program

#: A space and a name, or "param" and an offset in the block of parameters: what that points to.
#: "block" and an offset is the parameter itself.
Origin = tuple[str, Any]
#: A value that may be any address: it was loaded, or a function has returned it.
UNKNOWN: Origin = ("", "")
#: Instructions whose result points where an operand does. What others compute is no address, such
#: as a product.
_PASSING = {"mov", "cvta", "add", "sub", "selp", "and", "or", "min", "max", "cvt"}
_LOADING = {"ld", "ldu", "atom", "shfl", "call", "tex", "suld", "mapa"}


def variable_of(program: "Program", function: Function, name: str) -> set[Origin]:
    """Return the origin that a variable of a function or of its module is, or a parameter of the
    kernel.
    """
    place = program.layout(function).get(name)
    if place and place[0] == "param":
        return {("block", place[1])}
    variable = function.variables.get(name) or program.module.text.variables.get(name)
    if variable is None or variable.space not in ("shared", "local", "global", "const"):
        return set()
    return {(variable.space, name)}


def loaded(program: "Program", function: Function, instruction: Instruction) -> set[Origin]:
    """Return the origin of what an instruction loads: a parameter of the kernel, or unknown."""
    if instruction.root != "ld":
        return {UNKNOWN}
    address = instruction.operands[1]
    if not isinstance(address, Address) or not isinstance(address.base, Name):
        return {UNKNOWN}
    place = program.layout(function).get(address.base.text)
    if place is None or place[0] != "param":
        return {UNKNOWN}
    if not instruction.opcode.endswith("64"):
        # No address has fewer bits.
        return set()
    return {("param", place[1] + address.base.offset + address.offset)}


def flow(program: "Program", function: Function) -> dict[int, set[Origin]]:
    """Return the origins of each register of a function."""
    known: dict[int, set[Origin]] = {}

    def of(operand: Any) -> set[Origin]:
        if isinstance(operand, Register):
            return known.get(operand.number, set())
        if isinstance(operand, Name):
            return variable_of(program, function, operand.text)
        if isinstance(operand, Vector):
            return {UNKNOWN}
        return set()

    changed = True
    while changed:
        changed = False
        for instruction in function.instructions:
            root = instruction.root
            if root in _LOADING:
                result = loaded(program, function, instruction)
            elif root == "mad":
                result = of(instruction.operands[3])
            elif root in _PASSING:
                result = set[Origin]().union(*map(of, instruction.operands[1:]))
            else:
                continue
            for number in registers_of(instruction.operands[0]):
                origins = known.setdefault(number, set())
                if not result <= origins:
                    origins |= result
                    changed = True
    return known


def registers_of(operand: Any) -> list[int]:
    """Return the numbers of the registers that an operand is, or has as parts."""
    parts = operand.parts if isinstance(operand, Vector) else [operand]
    return [part.number for part in parts if isinstance(part, Register)]


def origins_of(program: "Program", function: Function, address: Any) -> set[Origin]:
    """Return the origins of the address operand of an instruction; a set with UNKNOWN, or an empty
    one, tells nothing.
    """
    if function.name not in program.flows:
        program.flows[function.name] = flow(program, function)
    base = address
    if isinstance(address, Address):
        base = address.base
    if isinstance(base, Name):
        return variable_of(program, function, base.text)
    if not isinstance(base, Register):
        return set()
    origins: set[Origin] = program.flows[function.name].get(base.number, set())
    return origins
