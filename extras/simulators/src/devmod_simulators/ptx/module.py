"""Modules: the parsed text, and variables with addresses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from devmod_simulators.ptx.errors import PtxError
from devmod_simulators.ptx.memory import CODE_WINDOW, Arena
from devmod_simulators.ptx.parser import parse
from devmod_simulators.ptx.program import Program
from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    Function,
    Name,
    Register,
    Variable,
    aligned,
)

#: CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK.
_BLOCK_REGISTERS = 65536


#: The most bytes of the variables of each space: those of a block or of a thread are a device's,
#: and those of a module bound what is written when it is loaded.
_MOST_BYTES = {
    "global": 1 << 30,
    "shared": 48 << 10,
    "local": 512 << 10,
    "param": 32764,
}


def _check_size(name: str, space: str, size: int) -> None:
    """Raise the error that variables are larger than their space."""
    most = _MOST_BYTES[space]
    if size > most:
        raise PtxError(
            "CUDA_ERROR_INVALID_PTX",
            f"{name} has {size} bytes of {space} memory; the simulated GPU has {most}",
        )


class Module:
    """A parsed module whose globals have addresses in an arena."""

    def __init__(self, text: str) -> None:
        self.text = parse(text)
        self.raw = text if "\n//| " in text else ""
        self.sources: dict[str, list[str]] = {}  # the lines of files, for reports
        self.kernels = [
            function
            for function in self.text.functions.values()
            if function.entry and function.body
        ]
        self.globals = [
            variable
            for variable in self.text.variables.values()
            if variable.space in ("global", "const") and not variable.external
        ]
        #: Of the globals: 0 until they are placed.
        self.addresses = dict.fromkeys((variable.name for variable in self.globals), 0)
        #: An estimate of each kernel's, once the text is checked.
        self.registers: dict[str, int] = {}
        self.programs: dict[tuple[str, frozenset[str]], Program] = {}
        self.numbers = list(self.text.functions)
        _check_size("the module", "global", sum(variable.size for variable in self.globals))
        for variable in self.text.variables.values():
            if variable.external and variable.space in ("global", "const"):
                raise PtxError(
                    "CUDA_ERROR_INVALID_PTX",
                    f"the external variable {variable.name!r} is not defined",
                )

    def check(self) -> None:
        """Raise the errors of the text that decoding finds, as a driver does when it loads a
        module.
        """
        for kernel in self.kernels:
            self.check_sizes(kernel)
            program = Program(self, kernel.name)
            for function in self.reached(kernel):
                if function.body:
                    _check(program, function)
            limit = self.register_limit(kernel)
            self.registers[kernel.name] = min(program.registers(), limit)

    def check_sizes(self, kernel: Function) -> None:
        """Raise the error that variables of a kernel are larger than a device's memory for them."""
        _check_size(f"kernel {kernel.name}", "shared", self.shared_layout(kernel)[1])
        _check_size(f"kernel {kernel.name}", "param", sum(each.size for each in kernel.params))
        for function in self.reached(kernel):
            # Parameters of device functions are in local memory too.
            local = sum(
                variable.size
                for variable in function.variables.values()
                if variable.space in ("local", "param")
            )
            _check_size(f"function {function.name}", "local", local)

    def register_limit(self, kernel: Function) -> int:
        """Return the most registers that a thread of a kernel has."""
        block = kernel.attributes.get("maxntid") or kernel.attributes.get("reqntid", ())
        # A device has registers for one block at least, and 255 for a thread.
        limits = [255, _BLOCK_REGISTERS // max(math.prod(block), 1)]
        limits += kernel.attributes.get("maxnreg", ())
        if self.text.most_registers:
            limits.append(self.text.most_registers)
        return min(limits)

    def function_address(self, name: str) -> int:
        """Return the address of a function, which its number makes."""
        return CODE_WINDOW + 16 * self.numbers.index(name)

    def place(self, addresses: list[int], arena: Arena) -> None:
        """Set the addresses of the globals and store their initial values.

        An odd address is one more than that of a global that has its value.
        """
        self.addresses = {
            variable.name: address & ~1
            for variable, address in zip(self.globals, addresses, strict=True)
        }
        self.programs.clear()
        for variable, address in zip(self.globals, addresses, strict=True):
            if address & 1:
                continue
            data = self.initial_bytes(variable)
            start = self.addresses[variable.name] - arena.base
            values = start + len(data)
            arena.bytes[start:values] = np.frombuffer(data, np.uint8)
            arena.bytes[values : start + variable.size] = 0

    def initial_bytes(self, variable: Variable) -> bytes:
        """Return the initial values of a variable. Zeros follow them."""
        dtype = DTYPES[variable.type]
        values = variable.values[: variable.count]
        array = np.zeros(len(values), dtype)
        for position, value in enumerate(values):
            if isinstance(value, tuple):
                name, offset, mask = value
                if name in self.addresses:
                    value = self.addresses[name] + offset
                elif name in self.text.functions:
                    value = self.function_address(name)
                else:
                    raise PtxError(
                        "CUDA_ERROR_INVALID_PTX",
                        f"the initial value of {variable.name!r} names {name!r}, which has no address",
                    )
                value = (value & mask) // (mask & -mask)
            if dtype.kind in "iu":
                value &= (1 << 8 * dtype.itemsize) - 1
                array.view(f"u{dtype.itemsize}")[position] = value
            else:
                array[position] = value
        return array.tobytes()

    def program(
        self, kernel: str, checks: frozenset[str] = frozenset(), watcher: Any = None
    ) -> "Program":
        """Return the decoded kernel, with the checks of a `Watcher`."""
        key = kernel, checks
        if key not in self.programs:
            checking = watcher(checks) if checks else None
            self.programs[key] = Program(self, kernel, checking)
        return self.programs[key]

    def shared_layout(self, kernel: Function) -> tuple[dict[str, tuple[int, int]], int]:
        """Return the offset and the size of each shared variable that a kernel reaches, and their
        sum. Those without a size come last.
        """
        variables: dict[str, Variable] = {}
        for function in self.reached(kernel):
            for instruction in function.instructions:
                for name in _names(instruction.operands):
                    variable = function.variables.get(name) or self.text.variables.get(name)
                    if variable is not None and variable.space == "shared":
                        variables[name] = variable
        places = {}
        size = 0
        dynamic = [variable for variable in variables.values() if not variable.count]
        static = [variable for variable in variables.values() if variable.count]
        for variable in sorted(static, key=lambda each: -each.align):
            size = aligned(size, variable.align)
            places[variable.name] = size, variable.size
            size += variable.size
        align = max([16, *(each.align for each in dynamic)])
        for variable in dynamic:
            places[variable.name] = aligned(size, align), 0
        return places, size

    def reached(self, kernel: Function) -> list[Function]:
        """Return the functions that a kernel can call."""
        functions: dict[str, Function] = {}
        work = [kernel]
        while work:
            function = work.pop()
            if function.name in functions:
                continue
            functions[function.name] = function
            for instruction in function.instructions:
                if instruction.root == "call" and any(
                    isinstance(each, Register) for each in instruction.operands
                ):
                    # An indirect call reaches everything.
                    work += self.text.functions.values()
                for name in _names(instruction.operands):
                    other = self.text.functions.get(name)
                    # A kernel is launched, and not called.
                    if other is not None and not other.entry:
                        work.append(other)
        return list(functions.values())


def _names(operands: Any) -> list[str]:
    names = []
    for operand in operands:
        if isinstance(operand, Name):
            names.append(operand.text)
        elif hasattr(operand, "base"):
            names += _names([operand.base])
        elif hasattr(operand, "parts"):
            names += _names(operand.parts)
    return names


def _check(program: Program, function: Function) -> None:
    try:
        program.code(function.name)
    except PtxError as error:
        # An instruction that the interpreter lacks is valid: only its execution is an error.
        if error.name != "CUDA_ERROR_NOT_SUPPORTED":
            raise
