"""The HIP examples, built, saved, loaded and run, with the calls and the NumPy references of the
demo.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from kind_programs import RANDOM, each_program, results
from profiled import check_busy_queue, driver_marks
from slang_computations import KERNELS
from standin_rocm import on_hardware
from stored_opencl_c import check_stored

import devmod

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from build import TARGETS, compile_kind  # noqa: E402
from cases import SMALL_CASES  # noqa: E402


@pytest.fixture(scope="module")
def payload() -> bytes:
    if on_hardware():
        TARGETS["rocm"] = f"rocm -arch={devmod.device('rocm').arch.partition(':')[0]}"
    return devmod.dumps(devmod.bundle(*(module for _, module in compile_kind(REPOSITORY, "rocm"))))


@pytest.mark.row("R37")
@pytest.mark.volume_but("softmax", "sum")
@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize(
    "name", [name for name in SMALL_CASES if name != "resize"]
)  # ROCm has no images
def test_example(name: str, payload: bytes, device: Any) -> None:
    result = SMALL_CASES[name](devmod.loads(payload), device, REPOSITORY)
    assert result.error <= result.tolerance


@pytest.mark.row("R34")
@pytest.mark.usefixtures("emulator")
def test_a_stored_payload_of_opencl_c(device: Any) -> None:
    if device.arch.partition(":")[0] != "gfx1100":
        pytest.skip("the payload is for gfx1100")
    check_stored(device)


def target_of(device: Any) -> str:
    return f"rocm -arch={device.arch.partition(':')[0] if on_hardware() else 'gfx1100'}"


@pytest.mark.usefixtures("emulator")  # it takes a second for each random program
@each_program(
    *("one source", "transformer", "guard", "faults", "profile", *RANDOM[:2], *results(KERNELS)),
    volume=(
        "one source",
        "transformer",
        "faults",
        *results(each for each in KERNELS if each not in ("matmul", "wave", "halves")),
    ),
)
def test_programs(program: Any, device: Any, tmp_path: Path) -> None:
    program(device, target_of(device), tmp_path)


@pytest.mark.usefixtures("emulator")
def test_the_times_of_a_busy_queue_are_the_drivers(device: Any, tmp_path: Path) -> None:
    check_busy_queue(device, target_of(device), 3, tmp_path, *driver_marks(device, "hip"))
