"""The worker process of the stand-in CUDA driver: it answers requests over pipes
(drivers/protocol.md).
"""

from __future__ import annotations

import math
import mmap
import struct
import sys
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np

from devmod_simulators.drivers.worker_process import ARENA, NO_RESERVE, Fields, serve, text
from devmod_simulators.ptx.columns import Launch
from devmod_simulators.ptx.engines import execute, prepare, summary
from devmod_simulators.ptx.errors import PtxError
from devmod_simulators.ptx.machine import triple
from devmod_simulators.ptx.memory import Arena
from devmod_simulators.ptx.module import Module

if TYPE_CHECKING:
    from devmod_simulators.ptx.sanitizer import Sanitizer


class Worker:
    """The modules of one process, and the arena that it shares."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.modules: dict[int, Module] = {}
        self.count = 0
        self.sanitizer: Sanitizer | None = None
        self.is_verbose = False
        self.at_end = self.end

    def load(self, fields: Fields) -> bytes:
        """Load a module and describe it."""
        from devmod_simulators.ptx.images import check_header, choose

        arch, newest, takes_cubins = fields.numbers("3I")
        image = choose(fields.bytes(), arch, bool(takes_cubins))
        target = ""
        if image.startswith(b"\x7fELF"):
            from devmod_simulators.ptx.cubins import as_ptx

            target, ptx = as_ptx(image, arch, bool(takes_cubins))
        else:
            ptx = image.rstrip(b"\0").decode("utf-8", "replace")
            check_header(ptx, arch, newest)
        module = Module(ptx)
        module.check()
        self.count += 1
        self.modules[self.count] = module
        body = struct.pack("<I", self.count) + text(target)
        body += struct.pack("<QI", 0, len(module.kernels))
        for kernel in module.kernels:
            body += self.describe(module, kernel.name)
        body += struct.pack("<I", len(module.globals))
        for variable in module.globals:
            flags = int(variable.space == "const") | int(variable.managed) << 1
            body += text(variable.name) + struct.pack("<QQI", variable.size, 0, flags)
        return body

    def describe(self, module: Module, name: str) -> bytes:
        """Return the description of a kernel."""
        function = module.text.functions[name]
        body = text(name) + struct.pack("<I", len(function.params))
        end = 0
        for variable, offset in zip(function.params, function.offsets(), strict=True):
            end = offset + variable.size
            body += struct.pack("<III", offset, variable.size, 0)

        local = sum(
            variable.size for variable in function.variables.values() if variable.space == "local"
        )
        numbers = (
            end,
            *triple(function.attributes.get("reqntid", (0, 0, 0))),
            math.prod(function.attributes.get("maxntid", (0,))),
            *triple(function.attributes.get("reqnctapercluster", (0, 0, 0))),
        )
        shared = module.shared_layout(function)[1]
        counts_clusters = "blocksareclusters" in function.attributes
        registers = module.registers[name]
        return body + struct.pack("<13I", *numbers, shared, local, registers, 0, counts_clusters)

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
        shared, flags, seconds = fields.numbers("3I")
        parameters = fields.bytes()
        ranges = fields.ranges()
        unordered = fields.ranges()
        is_cooperative = bool(flags & 1)
        launch = Launch(
            grid,  # type: ignore[arg-type]
            block,  # type: ignore[arg-type]
            parameters,
            shared,
            cluster,  # type: ignore[arg-type]
            is_cooperative,
            seconds,
            bool(flags & 64),
        )
        engine = ""
        if flags & 8:
            engine = "interpreter"
        elif flags & 16:
            engine = "compiled"
        is_verbose = bool(flags & 32)
        self.is_verbose |= is_verbose
        if flags & 4:
            from devmod_simulators.ptx.checked import launch_with_checks

            sanitizer = self.noted(fields)
            sanitizer.arena.unordered = unordered
            work = fields.numbers("QQ")
            checks = sanitizer.checks
            try:
                launch_with_checks(
                    sanitizer,
                    module,
                    kernel.name,
                    launch,
                    checks,
                    ranges,
                    work,  # type: ignore[arg-type]
                    engine,
                    verbose=is_verbose,
                )
            except PtxError as error:
                error.fields = sanitizer.packed()
                raise
            return sanitizer.packed()
        self.arena.set_ranges(ranges)
        self.arena.unordered = unordered
        execute(module.program(kernel.name), launch, self.arena, engine, verbose=is_verbose)
        return b""

    def noted(self, fields: Fields) -> "Sanitizer":
        """Take the checks and the notes of a request."""
        from devmod_simulators.ptx.sanitizer import Sanitizer

        self.sanitizer = self.sanitizer or Sanitizer(self.arena)
        self.sanitizer.checks = frozenset(fields.bytes().decode().split(","))
        self.sanitizer.take(Fields(fields.bytes()))
        return self.sanitizer

    def end(self) -> None:
        """Print how many launches each engine has executed, with the setting."""
        if self.is_verbose:
            print(summary(), file=sys.stderr, flush=True)

    def notes(self, fields: Fields) -> bytes:
        """Take notes without a launch."""
        return self.noted(fields).packed()


def main(arguments: list[str]) -> int:
    """Answer requests until the pipe ends."""
    base, size = (int(argument) for argument in arguments)
    # The arena needs no fixed address: the interpreter computes offsets from `base`. qemu maps it,
    # which is larger than memory, only with this flag.
    mapping = mmap.mmap(ARENA, size, flags=mmap.MAP_SHARED | NO_RESERVE)
    # The program has its first module compiled to PTX meanwhile, or reads it.
    Thread(target=prepare, daemon=True).start()
    serve(Worker(Arena(np.frombuffer(mapping, np.uint8), base)))
    return 0
