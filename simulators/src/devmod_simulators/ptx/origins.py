"""Where addresses come from: the parameter or the variable whose memory an instruction accesses, by
the flow of registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devmod_simulators.ptx.ptx_types import Address, Function, Name, Register, Vector

if TYPE_CHECKING:
    from devmod_simulators.ptx.program import Program

#: A space and a name, or "param" and an offset in the block of parameters.
Origin = tuple[str, Any]
#: A value that may be any address: it was loaded, or a function has returned it.
UNKNOWN: Origin = ("", "")
#: Instructions whose result points where an operand does. What others compute is no address, such
#: as a product.
_PASSING = {"mov", "cvta", "add", "sub", "selp", "and", "or", "min", "max", "cvt", "mad"}
_LOADING = {"ld", "ldu", "atom", "shfl", "call", "tex", "suld", "mapa"}
_WITHOUT_RESULT = {
    "st",
    "red",
    "bar",
    "barrier",
    "cp",
    "bra",
    "ret",
    "exit",
    "membar",
    "fence",
    "mbarrier",
    "prefetch",
}


def variable_of(program: "Program", function: Function, name: str) -> set[Origin]:
    """Return the origin that a variable of a function or of its module is."""
    variable = function.variables.get(name) or program.module.text.variables.get(name)
    return (
        {(variable.space, name)}
        if variable is not None and variable.space in ("shared", "local", "global", "const")
        else set()
    )


def flow(program: "Program", function: Function) -> dict[int, set[Origin]]:
    """Return the origins of each register of a function."""
    known: dict[int, set[Origin]] = {}

    def of(operand: Any) -> set[Origin]:
        if isinstance(operand, Register):
            return known.get(operand.number, set())
        if isinstance(operand, Name):
            return variable_of(program, function, operand.text)
        return {UNKNOWN} if isinstance(operand, Vector) else set()

    changed = True
    while changed:
        changed = False
        for instruction in function.instructions:
            root, _, modifiers = instruction.opcode.partition(".")
            if root in _WITHOUT_RESULT or not instruction.operands:
                continue
            result: set[Origin] = set()
            if root in _LOADING:
                result = {UNKNOWN}
                base = (
                    instruction.operands[1].base
                    if root == "ld" and isinstance(instruction.operands[1], Address)
                    else None
                )
                place = program.layout(function).get(base.text) if isinstance(base, Name) else None
                if place is not None and place[0] == "param":
                    wide = modifiers.endswith("64")
                    result = (
                        {("param", place[1] + base.offset + instruction.operands[1].offset)}
                        if wide and base is not None
                        else set()
                    )
            elif root in _PASSING:
                for operand in (
                    instruction.operands[3:4] if root == "mad" else instruction.operands[1:]
                ):
                    result |= of(operand)
            target = instruction.operands[0]
            for part in target.parts if isinstance(target, Vector) else [target]:
                if isinstance(part, Register) and not result <= known.setdefault(
                    part.number, set()
                ):
                    known[part.number] |= result
                    changed = True
    return known


def origins_of(program: "Program", function: Function, address: Any) -> set[Origin]:
    """Return the origins of the address operand of an instruction; a set with UNKNOWN, or an empty
    one, tells nothing.
    """
    if function.name not in program.flows:
        program.flows[function.name] = flow(program, function)
    base = address.base if isinstance(address, Address) else address
    if isinstance(base, Name):
        place = program.layout(function).get(base.text)
        return (
            {("block", place[1])}
            if place and place[0] == "param"
            else variable_of(program, function, base.text)
        )
    return (
        program.flows[function.name].get(base.number, set())
        if isinstance(base, Register)
        else set()
    )
