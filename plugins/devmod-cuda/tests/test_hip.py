"""HIP sources run on CUDA: those of the tests, and the demo's kernels for ROCm."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from family import EXAMPLES, check, compiled

import devmod

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from build import OPTIONS  # noqa: E402
from cases import SMALL_CASES  # noqa: E402

TARGET = "cuda -arch=compute_75"


@pytest.mark.volume
@pytest.mark.parametrize("name", ["warps.hip", "warps.cu"])
def test_one_source_of_both_vendors(name: str, device: Any) -> None:
    check(compiled(name, "rocm -arch=gfx1100", TARGET), device)


@pytest.mark.volume  # NVRTC reads the header of cooperative groups twice, for 2 s each time
def test_a_kept_source_with_groups(device: Any) -> None:
    check(compiled("warps.hip", "cuda -format=cuda"), device)


def test_a_kept_source(device: Any) -> None:
    check_example("reduction", "cuda -format=cuda", device)


@pytest.mark.row("R37")
@pytest.mark.volume_but("softmax")
@pytest.mark.parametrize("stem", EXAMPLES)
def test_an_example_for_rocm(stem: str, device: Any) -> None:
    check_example(stem, TARGET, device)


def check_example(stem: str, target: str, device: Any) -> None:
    source = REPOSITORY / "examples/rocm" / f"{stem}.hip"
    # Some have #pragma clang fp contract(off), which NVRTC ignores.
    module = devmod.compile(
        source,
        target,
        options=["--diag-suppress=161", "--fmad=false"],
        **OPTIONS.get(source.name, {}),
    )
    result = SMALL_CASES[EXAMPLES[stem]](module, device, REPOSITORY)
    assert result.error <= result.tolerance
