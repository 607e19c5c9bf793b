"""Each launch of these tests runs in both engines, which must agree."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.util import find_spec

import numpy as np
import pytest

from devmod_simulators.ptx import Launch, PtxError, engines, machine
from devmod_simulators.ptx.compiled import emit
from devmod_simulators.ptx.compiled.engine import run_compiled
from devmod_simulators.ptx.errors import UnsupportedError
from devmod_simulators.ptx.execution import run
from devmod_simulators.ptx.instructions import opcode_of
from devmod_simulators.ptx.memory import Arena
from devmod_simulators.ptx.program import Program

#: What the compiled engine leaves to the interpreter beside the forms of which the table of
#: instructions says so, by the beginning of its reason, and why.
INTERPRETED = {
    r"call|a call by an address|a recursive call|calls that are too deep": "the driver's",
    r"\S+: (a part|parts) of the parameter|\S+: the address of": "structs by value, functions",
    r"clusters|a cooperative launch|registers of 128 bits": "rare",
    r"line \d+: |launches of kernels|\S+: this form|\S+: a barrier in a register": "rare",
}
_INTERPRETED = re.compile("|".join(INTERPRETED))
#: Tests whose results depend on the order of threads, which is each engine's: they have that of the
#: interpreter.
ORDERS = (
    "test_atomics_give_each_lane_the_old_value",
    "test_threads_that_wait_for_ever_are_an_error",
    "test_an_endless_loop_is_an_error",
)


def same(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether bytes are equal, or NaN of one type in both."""
    if np.array_equal(first, second):
        return True
    for kind in (np.float16, np.float32, np.float64):
        whole = len(first) // 8 * 8
        a = first[:whole].view(kind)
        b = second[:whole].view(kind)
        bits = f"u{a.itemsize}"
        if ((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))).all():
            return True
    return False


def compiled_result(program: Program, launch: Launch, arena: Arena) -> tuple[PtxError | None, str]:
    """Execute a launch compiled, and return its error, or why it is interpreted."""
    try:
        run_compiled(program, launch, arena)
    except UnsupportedError as unsupported:
        return None, str(unsupported)
    except PtxError as failure:
        return failure, ""
    return None, ""


def inlined(program: Program, launch: Launch, arena: Arena) -> None:
    """Compare both engines twice: with the first code, and that of kernels which run for long."""
    top = max(arena.ends, default=arena.base) - arena.base
    before = arena.bytes[:top].copy()
    with suppress(PtxError):
        in_both(program, launch, arena)
    arena.bytes[:top] = before
    program.compiled = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emit, "MOST_IMPROVED", 0)
        in_both(program, launch, arena)


def in_both(program: Program, launch: Launch, arena: Arena) -> None:
    """Execute a launch compiled and interpreted, and compare memory or errors."""
    top = max(arena.ends, default=arena.base) - arena.base
    before = arena.bytes[:top].copy()
    error, reason = compiled_result(program, launch, arena)
    if reason:
        opcode, _, cause = reason.partition(": ")
        form = opcode_of(opcode).form
        if form is None or cause != form.interpreted:
            assert _INTERPRETED.match(reason), f"it is interpreted: {reason}"
        run(program, launch, arena)
        return
    compiled = arena.bytes[:top].copy()
    arena.bytes[:top] = before
    if error is not None:
        with pytest.raises(PtxError) as raised:
            run(program, launch, arena)
        assert str(raised.value) == str(error)
        raise error
    run(program, launch, arena)
    assert same(compiled, arena.bytes[:top])


@pytest.fixture(autouse=True)
def both_engines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.stem == "test_ptx_engines":
        return
    if request.node.originalname in ORDERS:
        monkeypatch.setenv(engines.SETTING, "interpreter")
    elif find_spec("llvmlite") is not None:
        both = inlined if request.path.stem == "test_ptx_memory" else in_both
        monkeypatch.setattr(machine, "execute", both)
