"""The choice of what executes a launch: compiled code or the interpreter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from devmod_simulators.ptx.execution import run

if TYPE_CHECKING:
    from devmod_simulators.ptx.columns import Launch
    from devmod_simulators.ptx.memory import Arena
    from devmod_simulators.ptx.program import Program

#: The setting that has the name of an engine.
SETTING = "DEVMOD_STANDIN_ENGINE"
ENGINES = ("interpreter", "compiled")


def engine_name() -> str:
    """Return the engine that executes launches: the interpreter, unless the setting has another."""
    name = os.environ.get(SETTING, "")
    return name if name in ENGINES else ENGINES[0]


def execute(program: Program, launch: Launch, arena: Arena) -> None:
    """Execute a launch. The interpreter does what the compiled engine does not."""
    if engine_name() == "compiled":
        from devmod_simulators.ptx.compiled.engine import run_compiled
        from devmod_simulators.ptx.compiled.graph import UnsupportedError

        try:
            run_compiled(program, launch, arena)
        except UnsupportedError:
            pass
        else:
            return
    run(program, launch, arena)
