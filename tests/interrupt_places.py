"""KeyboardInterrupt at each place of a use where CPython looks at signals: one process of
`test_interrupt_places.py`.

usage: interrupt_places.py KIND FOLDER USE SEED PLACES

USE is the number of a use in `Uses.all`, or of the end of Python after them. PLACES is the number
of places, chosen by SEED, beside those where a lock was just acquired; 0 is all of them. A forked
child for each place raises KeyboardInterrupt there once. Then every use must work
(`devmod_conformance._interrupts`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from interrupts import BLOCK, module_of

import devmod
from devmod_conformance._interrupts import (
    choose_places,
    in_child,
    interrupt_places,
    record_places,
)


class Uses:
    """The uses of a backend, in their order. Each needs those before it.

    Parameters
    ----------
    kind
        The kind.
    folder
        A folder, which has the saved module.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.saved = folder / "add.devmod"
        self.ones = np.ones(BLOCK, "uint32")
        self.all = [self.open, self.load, self.save, self.call, self.enter]

    def create(self) -> None:
        """Write the module that `load` loads."""
        devmod.save(module_of(self.kind), self.saved)

    def open(self) -> None:
        """The first use of the driver."""
        self.device = devmod.device(self.kind)

    def load(self) -> None:
        """The load of a module, and its build."""
        self.module = devmod.load(self.saved)
        self.function = self.module["add"].on(self.device)

    def save(self) -> None:
        """The save of a module."""
        devmod.save(self.module, self.saved.with_name(f"{os.getpid()}.devmod"))

    def call(self) -> None:
        """A call with arrays of the host, and one with those of the device."""
        y = np.zeros(BLOCK, "uint32")
        self.function(y=y, x=self.ones, grid=1, block=BLOCK)
        assert (y == 1).all()
        y = self.device.from_numpy(y)
        self.function(y=y, x=self.device.from_numpy(self.ones), grid=1, block=BLOCK)
        assert (y.numpy() == 2).all()

    def enter(self) -> None:
        """A ``with`` of each kind: of a target, of a stream and of a batch."""
        y = self.device.zeros(BLOCK, "uint32")
        x = self.device.from_numpy(self.ones)
        with devmod.Target(self.kind):
            pass
        with self.device.stream() as stream, stream.batch():
            self.function(y=y, x=x, grid=1, block=BLOCK)
        stream.synchronize()
        assert (y.numpy() == 1).all()


def main(kind: str, folder: Path, number: int, seed: int, count: int) -> None:
    """Interrupt a use at its places. Print the number of places and the failures."""
    uses = Uses(kind, folder)
    code, log = in_child(uses.create)
    assert code == 0, log
    places = record_places(uses.all, number)
    chosen = choose_places(places, count, seed=seed)
    reached = 0
    failures = 0
    for outcome in interrupt_places(uses.all, number, chosen):
        reached += outcome.is_reached
        if outcome.failure:
            failures += 1
            print(f"{outcome.place}: {outcome.failure}\n{outcome.log}", flush=True)
    print(f"{len(chosen)} of {len(places)} places, {reached} reached, {failures} failures")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
