"""The choice of what executes a launch: compiled code or the interpreter."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from devmod_simulators.ptx.errors import UnsupportedError
from devmod_simulators.ptx.execution import run

if TYPE_CHECKING:
    from types import ModuleType

    from devmod_simulators.ptx.columns import Launch
    from devmod_simulators.ptx.compiled.bounds import LimitsOf
    from devmod_simulators.ptx.execution import Execution
    from devmod_simulators.ptx.memory import Arena
    from devmod_simulators.ptx.program import Program

#: The setting that has `interpreter`, or `compiled` for code that is compiled before the first
#: launch. By default large kernels are interpreted until they are compiled.
SETTING = "DEVMOD_STANDIN_ENGINE"

#: The launches of this process, by what executed them; kernels that are interpreted, by name, with
#: the reasons.
launches: Counter[str] = Counter()
reasons: dict[str, str] = {}


def execute(
    program: Program,
    launch: Launch,
    arena: Arena,
    engine: str = "",
    *,
    verbose: bool = False,
    execution: type[Execution] | None = None,
    limits_of: LimitsOf | None = None,
) -> None:
    """Execute a launch. The interpreter does what the compiled engine does not, or not yet.
    `execution` has the interpreter's checks, of which compiled code makes those of `limits_of`.
    """
    name = engine or os.environ.get(SETTING, "")
    if execution is not None and limits_of is None:
        note(program, "checks of more than bounds", verbose)
        name = "interpreter"
    if name == "interpreter":
        launches["interpreted"] += 1
        run(program, launch, arena, execution)
        return

    compiler = _compiler()
    can_switch = True
    try:
        if compiler.run_compiled(program, launch, arena, limits_of, waits=name == "compiled"):
            launches["compiled"] += 1
            return
        reason = "it is being compiled"
        if program.compiled is None:
            reason = "it has not run for as long as its compilation takes"
        note(program, reason, verbose)
    except UnsupportedError as error:
        note(program, str(error), verbose)
        can_switch = False

    def switch(first: int) -> bool:
        """Execute the blocks from one on, if compiled code does that, and return whether it did."""
        nonlocal can_switch
        try:
            return can_switch and bool(
                compiler.run_compiled(program, launch, arena, limits_of, waits=False, first=first)
            )
        except UnsupportedError:
            can_switch = False
            return False

    launches["interpreted"] += 1
    with compiler.interpreting(program):
        run(program, launch, arena, execution, switch)


@cache
def _compiler() -> ModuleType:
    """Return the compiled engine, whose modules take long to import."""
    from devmod_simulators.ptx.compiled import engine

    return engine


def prepare() -> None:
    """Import and load what compiled code needs, which takes longer than to compile a kernel."""
    from devmod_simulators.drivers.build import BuildError, UnavailableError

    with suppress(BuildError, UnavailableError):
        _compiler().prepare()


def note(program: Program, reason: str, verbose: bool) -> None:
    """Note why a kernel is interpreted, and print it once."""
    if reasons.get(program.name) == reason:
        return
    reasons[program.name] = reason
    if verbose:
        print(
            f"devmod-simulators: the interpreter executes {program.name}: {reason}",
            file=sys.stderr,
            flush=True,
        )


def summary() -> str:
    """Return how many launches each engine has executed."""
    return (
        f"devmod-simulators: {launches['compiled']} launches compiled, "
        f"{launches['interpreted']} interpreted"
    )
