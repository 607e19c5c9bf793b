"""A tuned function beside its default and beside the best variant by hand.

    python benchmarks/bench_tune.py [--kinds opencl] [--rounds 41]

`devmod.tune` measures the matrix product of examples/ with three sizes. Then calls of the tuned
function, of the default and of each variant take turns, at the measured sizes and at sizes between
them. The best by hand is the variant with the least median. The exit code is 1 if the tuned
function takes more of its time than the bound.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())

import numpy as np
from timing import check, each_kind, medians_of, record, timed

import devmod

SOURCE = Path(__file__).resolve().parent.parent / "examples" / "opencl" / "matmul.cl"
NAME = "matmul_tiled"
MEASURED = (32, 128, 512)
BETWEEN = (48, 96, 200, 384)
MOST = {"measured": 1.05, "between": 1.15}
TABLE = "A matrix product, tuned"


def tuned_module(kind: str) -> devmod.Module:
    """Return the product with the times of this machine."""
    module = devmod.compile(
        SOURCE,
        kind,
        tune={"TILE": [16, 8, 4, 32]},
        sizes=["m", "n", "k"],
        grid=["ceildiv(n, TILE)", "ceildiv(m, TILE)"],
        block=["TILE", "TILE"],
    )
    given = {"a": "random[N,N]", "b": "random[N,N]", "c": "zeros[N,N]"}
    lengths = dict.fromkeys("mnk", "N")
    result = devmod.tune(module, NAME, {**given, **lengths}, sizes={"N": MEASURED})
    print(result)
    module.tuning_records = result.records
    return module


def times_at(function: Any, size: int, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of a call of each contender, in turns."""
    device = function.default_device()
    a, b, c = (device.from_numpy(np.ones((size, size), "float32")) for _ in range(3))
    contenders = {"tuned": function}
    for each in function.variants:
        contenders[f"TILE={each['TILE']}"] = function.specialize(**each)
    times: dict[str, list[float]] = {name: [] for name in contenders}

    def call(contender: Any, count: int) -> None:
        for _ in range(count):
            contender(a, b, c, size, size, size)
        device.synchronize()

    for each in contenders.values():
        call(each, 1)
    once = min(timed(partial(call, each, 1)) for each in contenders.values())
    count = ceil(1 / once)
    names = [*contenders]
    for _ in range(rounds):
        random.Random(len(times["tuned"])).shuffle(names)
        for name in names:
            each = contenders[name]
            call(each, 1)
            times[name].append(timed(partial(call, each, count)) / count)
    return times


def compare(kind: str, rounds: int) -> bool:
    """Measure a kind. Return whether a figure exceeds its bound."""
    function = tuned_module(kind)[NAME]
    failed = False
    for size in sorted((*MEASURED, *BETWEEN)):
        medians = medians_of(times_at(function, size, rounds))
        own = medians.pop("tuned")
        default = next(iter(medians.values()))
        best = min(medians, key=lambda name: medians[name])
        where = "between"
        if size in MEASURED:
            where = "measured"
        ratio = own / medians[best]
        print(
            f"{kind} {size:4}: tuned {own:.3f} ms, default {default:.3f} ms, {best} {medians[best]:.3f} ms: {ratio:.2f}, {where}"
        )
        record(TABLE, f"{kind}, of the default", own / default, "", column=str(size))
        failed |= check(
            f"{kind}, product of {size}, {where}", ratio, MOST[where], of="the best variant by hand"
        )
    return failed


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default="opencl")
    parser.add_argument("--rounds", type=int, default=41)
    options = parser.parse_args()
    raise SystemExit(each_kind(options.kinds, lambda kind, _: compare(kind, options.rounds)))


if __name__ == "__main__":
    main()
