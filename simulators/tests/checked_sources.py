"""CUDA C++ run by the interpreter of PTX with checks, for the tests of those."""

from __future__ import annotations

from typing import Any

import numpy as np
from ptx_sources import ptx_of

from devmod_simulators.ptx import Launch, Machine, PtxError, Report, Sanitizer, launch_with_checks

CHECKS = frozenset({"bounds", "align", "free", "race", "sync", "init"})


class New(np.ndarray[Any, np.dtype[Any]]):
    """An array whose memory on the device nothing writes before the launch."""


class Freed(np.ndarray[Any, np.dtype[Any]]):
    """An array whose memory on the device the host has freed before the launch."""


def new(count: int, dtype: Any = np.float32) -> Any:
    """Return such an array."""
    return np.zeros(count, dtype).view(New)


def carry(text: str, source: str, file: str = "kernel.cu") -> str:
    """Return PTX that carries its source."""
    return text + f"\n//| {file}:\n" + "".join(f"//| {line}\n" for line in source.splitlines())


def reports_of(
    source: str, grid: Any, block: Any, args: list[Any], checks: frozenset[str] = CHECKS, options: tuple[str, ...] = (), **launch: Any
) -> list[Report]:
    """Run a kernel `k` and return the reports. Arrays among the arguments change in place."""
    machine = Machine(1 << 24)
    module = machine.load(carry(ptx_of(source, "-lineinfo", *options), source))
    sanitizer = Sanitizer(machine.arena)
    for variable, (start, size) in zip(module.globals, machine.ranges, strict=True):
        sanitizer.allocated(start, size, variable.name, True)
    places: dict[int, int] = {}
    values = b""
    for number, argument in enumerate(args):
        if isinstance(argument, np.ndarray) and argument.ndim:
            places[number] = machine.allocate(argument.nbytes)
            machine.write(places[number], np.asarray(argument))
            sanitizer.allocated(places[number], argument.nbytes, f"app.py:{number + 1}", not isinstance(argument, New))
            if isinstance(argument, Freed):
                sanitizer.released(places[number], f"app.py:{number + 101}")
                machine.ranges.pop()
            argument = np.uint64(places[number])
        argument = np.asarray(
            argument, None if isinstance(argument, np.generic) else np.float32 if isinstance(argument, float) else np.int32
        )
        values += bytes(-len(values) % argument.itemsize) + argument.tobytes()
    shape = [tuple(np.broadcast_to(value, ()).tolist() for value in (*np.atleast_1d(each), 1, 1)[:3]) for each in (grid, block)]
    try:
        return launch_with_checks(sanitizer, module, "k", Launch(*shape, values, **launch), checks, sorted(machine.ranges))  # type: ignore[arg-type]
    except PtxError:
        if not sanitizer.reports:
            raise
        return list(sanitizer.reports.values())
    finally:
        for number, address in places.items():
            args[number][...] = machine.read(address, args[number])
