"""The worker process of a stand-in driver: it answers requests over pipes (tests/standin/protocol.md)."""

import math
import mmap
import os
import struct
import traceback
from collections.abc import Callable

import numpy as np

from .columns import Launch
from .errors import PtxError
from .execution import run
from .memory import Arena
from .module import Module
from .program import Program

REQUESTS, RESPONSES, ARENA = 3, 4, 5
_UNKNOWN = 999  # CUDA_ERROR_UNKNOWN


class Fields:
    """The fields of a request, read in order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        """Return integers in the notation of the module struct."""
        values = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def u32(self) -> int:
        """Return one integer of 32 bits."""
        return self.numbers("I")[0]

    def bytes(self) -> bytes:
        """Return bytes with their length before them."""
        length = self.u32()
        value = self.data[self.at : self.at + length]
        self.at += length
        return value


def text(value: str) -> bytes:
    """Return text with its length before it."""
    data = value.encode()
    return struct.pack("<I", len(data)) + data


class Worker:
    """The modules of one process, and the arena that it shares."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.modules: dict[int, Module] = {}
        self.count = 0
        self.operations: dict[int, Callable[[Fields], bytes]] = {1: self.load, 2: self.place, 3: self.unload, 4: self.launch}

    def answer(self, request: bytes) -> bytes:
        """Return the response to a request."""
        try:
            fields = Fields(request)
            operation = fields.u32()
            return struct.pack("<I", 0) + text("") + self.operations[operation](fields)
        except PtxError as error:
            return struct.pack("<I", error.code) + text(error.text)
        except Exception:
            return struct.pack("<I", _UNKNOWN) + text(traceback.format_exc())

    def load(self, fields: Fields) -> bytes:
        """Load a module and describe it."""
        fields.u32()  # the architecture: every instruction is the same on all of them
        module = Module(fields.bytes().decode("utf-8", "replace"))
        module.check()
        self.count += 1
        self.modules[self.count] = module
        body = struct.pack("<II", self.count, len(module.kernels))
        for kernel in module.kernels:
            body += self.describe(module, kernel.name)
        body += struct.pack("<I", len(module.globals))
        for variable in module.globals:
            body += text(variable.name) + struct.pack("<QII", variable.size, variable.align, int(variable.space == "const"))
        return body

    def describe(self, module: Module, name: str) -> bytes:
        """Return the description of a kernel."""
        function = module.text.functions[name]
        body = text(name) + struct.pack("<I", len(function.params))
        end = 0
        for variable in function.params:
            offset = -(-end // variable.align) * variable.align
            end = offset + variable.size
            body += struct.pack("<III", offset, variable.size, variable.align)

        def three(attribute: str, default: int) -> tuple[int, int, int]:
            values = function.attributes.get(attribute)
            return (*values, 1, 1)[:3] if values else (default, default, default)

        threads = function.attributes.get("maxntid")
        local = sum(variable.size for variable in function.variables.values() if variable.space == "local")
        _, static = module.shared_layout(function)
        return body + struct.pack(
            "<IIIIIIIIIII",
            end,
            *three("reqntid", 0),
            math.prod(threads) if threads else 0,
            *three("reqnctapercluster", 0),
            static,
            local,
            0,
        )

    def place(self, fields: Fields) -> bytes:
        """Place the globals of a module."""
        module = self.modules[fields.u32()]
        count = fields.u32()
        module.place(list(fields.numbers(f"{count}Q")), self.arena)
        return b""

    def unload(self, fields: Fields) -> bytes:
        """Forget a module."""
        del self.modules[fields.u32()]
        return b""

    def launch(self, fields: Fields) -> bytes:
        """Run a kernel."""
        module = self.modules[fields.u32()]
        kernel = module.kernels[fields.u32()]
        grid, block, cluster = (fields.numbers("3I") for _ in range(3))
        shared, flags = fields.numbers("II")
        parameters = fields.bytes()
        count = fields.u32()
        numbers = fields.numbers(f"{2 * count}Q")
        self.arena.set_ranges(list(zip(numbers[::2], numbers[1::2], strict=True)))
        program: Program = module.program(kernel.name)
        run(program, Launch(grid, block, parameters, shared, cluster, bool(flags & 1)), self.arena)  # type: ignore[arg-type]
        return b""


def read(descriptor: int, size: int) -> bytes:
    """Return `size` bytes, or fewer at the end of the pipe."""
    parts = []
    while size and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def main(arguments: list[str]) -> int:
    """Answer requests until the pipe ends."""
    base, size = (int(argument) for argument in arguments)
    # The arena needs no fixed address: the interpreter computes offsets from `base`.
    mapping = mmap.mmap(ARENA, size)
    worker = Worker(Arena(np.frombuffer(mapping, np.uint8), base))
    while len(head := read(REQUESTS, 4)) == 4:
        response = worker.answer(read(REQUESTS, *struct.unpack("<I", head)))
        data = struct.pack("<I", len(response)) + response
        while data:
            data = data[os.write(RESPONSES, data) :]
    return 0
