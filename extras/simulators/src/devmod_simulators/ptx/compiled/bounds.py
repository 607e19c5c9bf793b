"""Checks of bounds in compiled code: the addresses that each access may have, and memory as it was
before the launch, since the interpreter repeats one that has a fault, for its reports.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from devmod_simulators.ptx.compiled.context import (
    GENERIC,
    GLOBAL,
    LOCAL,
    PARAM,
    SHARED,
    Limit,
    Undo,
)
from devmod_simulators.ptx.ptx_types import U8, U64

if TYPE_CHECKING:
    from devmod_simulators.ptx.compiled.emit import Emitter
    from devmod_simulators.ptx.memory import Arena
    from devmod_simulators.ptx.ptx_types import Instruction

#: A function that returns where the memory begins and ends that an instruction may access in a
#: space, or None if that is all of the space.
LimitsOf = Callable[["Instruction", str], "tuple[int, int] | None"]
#: The bytes of memory that engine.c keeps at once.
PIECE = 1 << 16
_ALL = (0, (1 << 64) - 1)


class Bounds:
    """What engine.c needs to check the bounds of a launch."""

    def __init__(self, limits_of: LimitsOf, emitter: Emitter, arena: Arena, shared: int) -> None:
        self.limits = (Limit * (PARAM * max(len(emitter.sites), 1)))()
        for number, site in enumerate(emitter.sites):
            instruction = emitter.site_instructions[number]
            of_site = [_ALL, (0, shared), (0, emitter.site_frames[number])]
            for space, name in ((GLOBAL, "global"), (SHARED, "shared")):
                if site.space in (space, GENERIC):
                    of_site[space] = limits_of(instruction, name) or of_site[space]
            for space in (GLOBAL, SHARED, LOCAL):
                self.limits[PARAM * number + space] = Limit(*of_site[space])
        sizes = np.array(arena.ends, U64) - np.array(arena.starts, U64)
        self.left = (sizes + U64.type(PIECE - 1)) // U64.type(PIECE)
        self.first = np.cumsum(self.left) - self.left
        self.is_kept = np.zeros(int(self.left.sum()) + 1, U8)
        self.undo = Undo(
            first=self.first.ctypes.data,
            left=self.left.ctypes.data,
            is_kept=self.is_kept.ctypes.data,
        )

    @property
    def addresses(self) -> tuple[int, int]:
        """The addresses of the limits and of what is kept."""
        return ctypes.addressof(self.limits), ctypes.addressof(self.undo)
