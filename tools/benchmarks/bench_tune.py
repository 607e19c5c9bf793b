"""A tuned function beside its default and beside the best variant by hand.

    python tools/benchmarks/bench_tune.py [--kinds opencl] [--rounds 41] [--busy]

`devmod.tune` measures the matrix product of examples/ with three sizes. Then calls of the tuned
function, of the default and of each variant take turns, at the measured sizes and at sizes between
them. The best by hand is the variant with the least median. The exit code is 1 if the tuned
function takes more of its time than the bound.

With --busy, a matrix product and a sum of 10^6 floats are tuned five times beside a process that
computes. Each choice takes at most the best variant's time by 0.97, or the search said that it was
not settled.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())

import numpy as np
from timing import check, each_kind, medians_of, record, timed

import devmod

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "opencl" / "matmul.cl"
NAME = "matmul_tiled"
MEASURED = (32, 128, 512)
BETWEEN = (48, 96, 200, 384)
MOST = {"measured": 1.05, "between": 1.15}
TABLE = "A matrix product, tuned"
#: The runs beside a busy process, and the part of the best variant's speed that each has.
RUNS = 5
LEAST = 0.97
#: The sums of the rows of a matrix with 1,000 columns.
SUM = """
#ifndef BLOCK
#define BLOCK 64
#endif
__kernel void sum_rows(__global float *y, __global const float *x, uint n) {
    __local float part[BLOCK];
    uint me = get_local_id(0), row = get_group_id(0);
    float own = 0;
    for (uint i = me; i < 1000; i += BLOCK)
        if (row * 1000 + i < n) own += x[row * 1000 + i];
    part[me] = own;
    for (uint count = BLOCK / 2; count > 0; count /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < count) part[me] += part[me + count];
    }
    if (me == 0) y[row] = part[0];
}
"""

#: The arguments of the product with a size N.
GIVEN = {"a": "random[N,N]", "b": "random[N,N]", "c": "zeros[N,N]", **dict.fromkeys("mnk", "N")}


def product(kind: str) -> devmod.Module:
    return devmod.compile(
        SOURCE,
        kind,
        tune={"TILE": [16, 8, 4, 32]},
        sizes=["m", "n", "k"],
        grid=["ceildiv(n, TILE)", "ceildiv(m, TILE)"],
        block=["TILE", "TILE"],
    )


def sums(kind: str) -> devmod.Module:
    return devmod.compile(
        SUM,
        kind,
        tune={"BLOCK": [64, 16, 32, 128, 256]},
        sizes=["n"],
        grid="ceildiv(n, 1000)",
        block="BLOCK",
    )


def tuned_module(kind: str) -> devmod.Module:
    """Return the product with the times of this machine."""
    module = product(kind)
    result = devmod.tune(module, NAME, GIVEN, sizes={"N": MEASURED})
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


def compare_busy(kind: str, rounds: int) -> bool:
    """Tune beside a process that computes. Return whether a choice is slower than the bound without
    a word.
    """
    x = np.ones(10**6, "float32")
    y = np.zeros(1000, "float32")
    square = [np.ones((256, 256), "float32") for _ in "abc"]
    numbers = dict.fromkeys("mnk", 256)
    given = {"y": "zeros[1000]", "x": "random[n]"}
    failed = tune_busy(
        lambda: sums(kind), given, {"n": 10**6}, {"y": y, "x": x, "n": 10**6}, rounds
    )
    arrays = dict(zip("abc", square, strict=True)) | numbers
    return tune_busy(lambda: product(kind), GIVEN, {"N": 256}, arrays, rounds) or failed


def tune_busy(
    compiled: Callable[[], devmod.Module],
    given: Mapping[str, str],
    size: Mapping[str, int],
    arguments: Mapping[str, Any],
    rounds: int,
) -> bool:
    """Do so with the only function of a module, whose variants differ in their blocks."""
    failed = False
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            choices = []
            for _ in range(RUNS):
                module = compiled()
                (name,) = module.functions
                sizes = {each: [number] for each, number in size.items()}
                result = devmod.tune(module, name, given, sizes=sizes)
                module.tuning_records = result.records
                function: Any = module[name]
                deciding = {each: arguments[each] for each in function.tuning.sizes}
                block = function.launch_config(**deciding).block[0]
                choices.append((block, all(each.is_settled for each in result.times)))
            best = times_by_block(function, arguments, rounds)
        finally:
            busy.kill()
    print(f"{name}: {best}")
    for block, is_settled in choices:
        share = min(best.values()) / best[block]
        words = "settled"
        if not is_settled:
            words = "not settled, by its own words"
        print(f"{name}: a block of {block}: {share:.3f} of the best, {words}")
        failed |= is_settled and share < LEAST
    return failed


def times_by_block(function: Any, arguments: Mapping[str, Any], rounds: int) -> dict[int, float]:
    """Return what each variant takes of the time of the first one in the same rounds."""
    device = function.default_device()
    moved = {}
    for name, value in arguments.items():
        moved[name] = value
        if isinstance(value, np.ndarray):
            moved[name] = device.from_numpy(value)
    bound = {}
    for each in function.variants:
        variant = function.specialize(**each)
        bound[variant.block[0]] = variant.bind(**moved)
    ratios: dict[int, list[float]] = {block: [] for block in bound}
    for _ in range(rounds):
        times = {block: min(launch.time() for _ in range(3)) for block, launch in bound.items()}
        first = next(iter(times.values()))
        for block, seconds in times.items():
            ratios[block].append(seconds / first)
    return {block: median(each) for block, each in ratios.items()}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default="opencl")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--busy", action="store_true")
    options = parser.parse_args()
    work = compare
    if options.busy:
        work = compare_busy
    raise SystemExit(each_kind(options.kinds, lambda kind, _: work(kind, options.rounds)))


if __name__ == "__main__":
    main()
