"""The conformance kit: it checks a backend against the contract, row by row.
docs/design/conformance.md has the reasons.

A backend ships a subclass of `Conformance` in its wheel::

    # devmod_acme/_conformance.py
    from devmod import FunctionInfo
    from devmod_conformance import Call, Conformance, Sample

    INFO = FunctionInfo("axpy", ["handle", "handle", "float32", "int32"], ["blockIdx.x",
    "threadIdx.x"])


    def axpy(x, y, a, n):  # computes the same on NumPy arrays, in place
        y[:n] += a * x[:n]


    class AcmeConformance(Conformance):
        kind = "acme"
        driver_modules = ("acme_driver",)
        samples = (
            Sample(
                b"kernel axpy ...", "acme", {"axpy": INFO}, calls=[Call("axpy", lambda rng:
                [rng.random(64, "float32"), rng.random(64, "float32"), 2.5, 64], axpy, grid=4,
                block=16)],
            ),
        )

with the entry point ``acme = "devmod_acme._conformance:AcmeConformance"`` in the group
``devmod.conformance``. The command ``devmod conformance acme`` then runs every row. The backend's
own tests are::

    # tests/test_conformance.py
    from devmod_acme._conformance import AcmeConformance

    pytest_plugins = ["devmod_conformance.plugin"]


    class TestConformance(AcmeConformance):
        pass

The rows that run kernels need NumPy. ``pip install "devmod-core[conformance]"`` installs the kit,
NumPy and pytest. `import devmod` imports nothing of the kit.
"""

from __future__ import annotations

from devmod_conformance._case import (
    C_SCALARS,
    Call,
    Conformance,
    Sample,
    axpy_call,
    count_call,
    linear_functions,
    spin_call,
    transpose_call,
)
from devmod_conformance._row import Result, Row, Skip
from devmod_conformance._run import find, rows, run
from devmod_conformance._turn import device_turn

__all__ = [
    "C_SCALARS",
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
    "linear_functions",
    "rows",
    "run",
    "spin_call",
    "transpose_call",
]
