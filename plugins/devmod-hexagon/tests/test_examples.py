"""The C examples, built, saved, loaded and run, with the calls and the NumPy references of the
demo.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from kind_programs import RANDOM, each_program, results
from profiled import check_busy_queue
from slang_computations import PLAIN

import devmod

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from build import compile_dsp  # noqa: E402
from cases import DSP_CASES, dsp_matmul  # noqa: E402


@pytest.fixture(scope="module")
def loaded() -> devmod.Module:
    return devmod.loads(
        devmod.dumps(devmod.bundle(*(module for _, module in compile_dsp(REPOSITORY))))
    )


@pytest.mark.row("R37")
@pytest.mark.parametrize("name", DSP_CASES)
def test_example(name: str, loaded: devmod.Module, device: Any) -> None:
    result = DSP_CASES[name](loaded, device)
    assert result.error <= result.tolerance


@pytest.mark.row("R37")
def test_a_kernel_of_two_seconds(loaded: devmod.Module, device: Any) -> None:
    """In qemu-hexagon 7.2, a kernel that a signal handler has interrupted computes wrong results.
    The runner uses no timer signals.
    """
    result = dsp_matmul(loaded, device, m=190, n=200, k=210)
    assert result.error <= result.tolerance


#: The results that make test compares.
SOME = {"saxpy", "particles", "halves", "functions", "atomics", "constants"}


@each_program(
    *("one source", "transformer", "guard", "profile", *RANDOM, *results(PLAIN)),
    volume=results(each for each in PLAIN if each not in SOME),
)
def test_programs(program: Any, device: Any, tmp_path: Path) -> None:
    program(device, "hexagon -arch=v66", tmp_path)


def test_the_times_of_a_busy_queue_are_the_drivers(device: Any, tmp_path: Path) -> None:
    """The runner has one clock, which its requests read."""
    runner = device.runner()

    def mark() -> list[int]:
        clock: list[int] = []
        runner.queue_clock(clock.extend)
        return clock

    check_busy_queue(
        device,
        "hexagon -arch=v66",
        100_000,
        tmp_path,
        mark,
        lambda earlier, later: (later[0] - earlier[0]) * 1e-9,
    )
