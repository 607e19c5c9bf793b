"""A device in this process: memory and launches without a driver, for tests of the interpreter
itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from devmod_simulators.ptx.columns import Launch
from devmod_simulators.ptx.engines import execute
from devmod_simulators.ptx.memory import Arena
from devmod_simulators.ptx.module import Module
from devmod_simulators.ptx.program import Program
from devmod_simulators.ptx.ptx_types import Array, aligned

BASE = 0x7_0000_0000_00
_ALIGN = 256


class Machine:
    """An arena with allocations, and modules."""

    def __init__(self, size: int = 1 << 28) -> None:
        self.arena = Arena(np.zeros(size, np.uint8), BASE)
        self.ranges: list[tuple[int, int]] = []
        self.top = BASE + _ALIGN

    def allocate(self, size: int) -> int:
        """Return the address of new memory.

        A gap after it makes each access past its end an error.
        """
        address = self.top
        self.top += aligned(size, _ALIGN) + _ALIGN
        self.ranges.append((address, size))
        return address

    def write(self, address: int, data: Array) -> None:
        """Copy an array to the memory."""
        raw = np.frombuffer(data.tobytes(), np.uint8)
        self.arena.bytes[address - BASE : address - BASE + len(raw)] = raw

    def read(self, address: int, like: Array) -> Array:
        """Return a copy of the memory as an array of the shape and the type of `like`."""
        return (
            self.arena.bytes[address - BASE : address - BASE + like.nbytes]
            .view(like.dtype)
            .reshape(like.shape)
            .copy()
        )

    def load(self, text: str) -> Module:
        """Load a module and place its globals."""
        module = Module(text)
        module.check()
        module.place([self.allocate(variable.size) for variable in module.globals], self.arena)
        return module

    def launch(self, module: Module, name: str, launch: Launch) -> None:
        """Run a kernel."""
        self.arena.set_ranges(sorted(self.ranges))
        execute(module.program(name), launch, self.arena)


def triple(value: int | tuple[int, ...]) -> tuple[int, int, int]:
    """Return one to three numbers as three."""
    numbers = (value,) if isinstance(value, int) else value
    return (*numbers, 1, 1)[:3]  # type: ignore[return-value]


def parameter_block(program: Program, values: list[Any]) -> bytes:
    """Return the parameter block of arguments: numbers, NumPy scalars and arrays (structs) of the
    parameters' sizes, or bytes.
    """
    variables = program.kernel.params
    assert len(values) == len(variables), (
        f"{program.name} takes {len(variables)} arguments, not {len(values)}"
    )
    block = bytearray()
    offsets = program.kernel.offsets()
    for variable, offset, value in zip(variables, offsets, values, strict=True):
        block = block.ljust(offset, b"\0")
        if isinstance(value, int):
            data = (value & ((1 << 8 * variable.size) - 1)).to_bytes(variable.size, "little")
        elif isinstance(value, float):
            data = np.array(value, np.float64 if variable.size == 8 else np.float32).tobytes()
        else:
            data = bytes(value) if isinstance(value, bytes) else np.asarray(value).tobytes()
        assert len(data) == variable.size, (
            f"{variable.name} has {variable.size} bytes, not {len(data)}"
        )
        block += data
    return bytes(block)


def run_ptx(
    text: str,
    name: str,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    args: list[Any],
    shared_memory: int = 0,
    cluster: int | tuple[int, ...] = 1,
    cooperative: bool = False,
    seconds: float = 60,
) -> Module:
    """Run a kernel of a PTX text. Arrays among the arguments are copied to the device and back in
    place.
    """
    machine = Machine()
    module = machine.load(text)
    places = {}
    values = []
    for position, argument in enumerate(args):
        if isinstance(argument, np.ndarray) and argument.ndim:
            places[position] = machine.allocate(argument.nbytes)
            machine.write(places[position], argument)
            values.append(places[position])
        else:
            values.append(argument)
    program = module.program(name)
    launch = Launch(
        triple(grid),
        triple(block),
        parameter_block(program, values),
        shared_memory,
        triple(cluster),
        cooperative,
        seconds,
    )
    try:
        machine.launch(module, name, launch)
    finally:
        for position, address in places.items():
            args[position][...] = machine.read(address, args[position])
    return module
