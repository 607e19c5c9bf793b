"""CUDA C++ sources run on ROCm: those of the tests, and the demo's kernels for CUDA."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from family import EXAMPLES, check, compiled
from standin_rocm import on_hardware

import devmod

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from build import OPTIONS  # noqa: E402
from cases import SMALL_CASES  # noqa: E402


def target(device: Any) -> str:
    """Return the target of a device: gfx1100 for the emulator."""
    return f"rocm -arch={device.arch.partition(':')[0] if on_hardware() else 'gfx1100'}"


@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize("name", ["warps.cu", "warps.hip"])
def test_one_source_of_both_vendors(name: str, device: Any) -> None:
    check(compiled(name, "cuda -arch=compute_75", target(device)), device)


@pytest.mark.row("R37")
@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize(("stem", "case"), EXAMPLES.items())
def test_an_example_for_cuda(stem: str, case: str, device: Any) -> None:
    source = REPOSITORY / "examples/cuda" / f"{stem}.cu"
    module = devmod.compile(source, target(device), **OPTIONS.get(source.name, {}))
    result = SMALL_CASES[case](module, device, REPOSITORY)
    assert result.error <= result.tolerance
