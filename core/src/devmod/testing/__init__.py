"""The conformance kit: what a backend must do, checked row by row of the contract.

A backend describes itself in a subclass of `Conformance`, in some fifteen lines, and ships it in its wheel::

    # devmod_acme/_conformance.py
    from devmod import FunctionInfo
    from devmod.testing import Call, Conformance, Sample

    INFO = FunctionInfo("axpy", ["handle", "handle", "float32", "int32"], ["blockIdx.x", "threadIdx.x"])


    def axpy(x, y, a, n):  # the same on NumPy arrays; it changes them as the kernel does
        y[:n] += a * x[:n]


    class AcmeConformance(Conformance):
        kind = "acme"
        driver_modules = ("acme_driver",)
        samples = (
            Sample(
                b"kernel axpy ...", "acme", {"axpy": INFO},
                calls=[Call("axpy", lambda rng: [rng.random(64, "float32"), rng.random(64, "float32"), 2.5, 64], axpy, grid=4, block=16)],
            ),
        )

with the entry point ``acme = "devmod_acme._conformance:AcmeConformance"`` in the group ``devmod.conformance``. Then
``devmod conformance acme`` runs every row, for anyone who has installed the wheel, and the backend's own tests are::

    # tests/test_conformance.py
    from devmod_acme._conformance import AcmeConformance

    pytest_plugins = ["devmod.testing.plugin"]


    class TestConformance(AcmeConformance):
        pass

The command needs NumPy for the rows that run kernels, and nothing else; ``pip install "devmod-core[testing]"`` brings all that
the kit can use. `import devmod` imports nothing of it.
"""

from __future__ import annotations

from devmod.testing._calls import axpy_call as axpy_call
from devmod.testing._calls import count_call as count_call
from devmod.testing._calls import transpose_call as transpose_call
from devmod.testing._case import Call as Call
from devmod.testing._case import Conformance as Conformance
from devmod.testing._case import Sample as Sample
from devmod.testing._row import Result as Result
from devmod.testing._row import Row as Row
from devmod.testing._row import Skip as Skip
from devmod.testing._row import find as find
from devmod.testing._row import rows as rows
from devmod.testing._row import run as run
from devmod.testing._turn import device_turn as device_turn

__all__ = [
    "Call",
    "Conformance",
    "Result",
    "Row",
    "Sample",
    "Skip",
    "axpy_call",
    "count_call",
    "device_turn",
    "find",
    "rows",
    "run",
    "transpose_call",
]
