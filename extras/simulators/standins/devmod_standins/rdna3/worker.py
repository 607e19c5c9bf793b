"""The worker process of the stand-in HIP runtime: it answers requests over pipes
(drivers/protocol.md).
"""

from __future__ import annotations

import struct

import numpy as np

from devmod_simulators.drivers.worker_process import Failure, Fields, serve, text
from devmod_standins.rdna3 import emulator
from devmod_standins.rdna3.code_object import CodeObject, Kernel
from devmod_standins.rdna3.memory import Arena, report_faults

_NOT_FOUND = 500


class Worker:
    """The code objects of one process, and the arena that it shares."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.modules: dict[int, CodeObject] = {}
        self.addresses: dict[int, int] = {}
        self.count = 0

    def load(self, fields: Fields) -> bytes:
        """Load a code object and describe it."""
        code = CodeObject(fields.bytes())
        self.count += 1
        self.modules[self.count] = code
        body = (
            struct.pack("<I", self.count)
            + text(code.target)
            + struct.pack("<QI", code.size, len(code.kernels))
        )
        body += b"".join(map(_description, code.kernels)) + struct.pack("<I", len(code.globals))
        for name, offset, size in code.globals:
            body += text(name) + struct.pack("<QQI", size, offset, 0)
        return body

    def place(self, fields: Fields) -> bytes:
        """Load a code object at an address."""
        number, address = fields.numbers("IQ")
        code = self._module(number)
        self.arena.protect([(address, code.size)])
        view = self.arena.view(address, code.size)
        code.load(view, address)
        emulator.prepare(code, np.frombuffer(view, np.uint8))
        self.addresses[number] = address
        return b""

    def unload(self, fields: Fields) -> bytes:
        """Forget a code object."""
        number = fields.u32()
        self._module(number)
        del self.modules[number]
        self.addresses.pop(number, None)
        return b""

    def launch(self, fields: Fields) -> bytes:
        """Execute a kernel."""
        number, index = fields.numbers("II")
        code = self._module(number)
        dimensions = fields.numbers("6I")
        _, _, _, shared, _, _ = fields.numbers("6I")
        arguments = fields.bytes()
        ranges = fields.ranges()
        self.arena.protect(ranges)
        image = np.frombuffer(self.arena.view(self.addresses[number], code.size), np.uint8)
        emulator.launch(code, image, code.kernels[index], dimensions, shared, arguments)
        self.arena.check_ends(ranges)
        return b""

    def _module(self, number: int) -> CodeObject:
        if number not in self.modules:
            raise Failure(_NOT_FOUND, f"there is no module {number}")
        return self.modules[number]


def _description(kernel: Kernel) -> bytes:
    block = [*map(int, kernel.metadata.get(".reqd_workgroup_size", ())), 0, 0, 0][:3]
    sizes = (
        ".group_segment_fixed_size",
        ".private_segment_fixed_size",
        ".vgpr_count",
        ".wavefront_size",
    )
    numbers = [
        kernel.number(".kernarg_segment_size"),
        *block,
        kernel.number(".max_flat_workgroup_size"),
        *(0, 0, 0),
        *map(kernel.number, sizes),
    ]
    body = text(kernel.name) + struct.pack("<I", len(kernel.arguments))
    for kind, offset, size in kernel.arguments:
        body += struct.pack("<II", offset, size) + text(kind)
    return body + struct.pack("<13I", *numbers, 0)


def main(arguments: list[str]) -> int:
    """Answer requests until the pipe ends."""
    base, size = (int(argument) for argument in arguments)
    worker = Worker(Arena(base, size))
    report_faults()
    serve(worker)
    return 0
