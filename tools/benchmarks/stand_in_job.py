"""The stand-in compiler of `bench_build.py --dask`: it waits as long as a compile takes, and
returns a small file. Workers import it.
"""

from __future__ import annotations

import time
from typing import Any

import devmod
from devmod_targets.build.result import Outcome
from devmod_targets.build.toolchains import toolchain_of

#: The seconds of one compile.
COST = 0.01


def stand_in(job: Any, files: Any, *, with_sources: bool) -> Outcome:
    """Return the outcome of a job without its compile."""
    time.sleep(COST)
    module = devmod.create_with_fallback(
        "opencl",
        files[0].name.encode(),
        "cl",
        {job.name: devmod.FunctionInfo(job.name, ["handle"])},
    )
    return Outcome(devmod.dumps(module), toolchain=toolchain_of(job))


def bare_job(_: int) -> bytes:
    """Return as many bytes after the same time, as a function of Dask alone."""
    time.sleep(COST)
    return bytes(512)
