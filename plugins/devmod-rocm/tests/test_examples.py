"""The HIP examples, built, saved, loaded and run, with the calls and the NumPy references of the demo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from faults import check_faults
from guarded import check_guard
from one_source import SLANG, check_one_source
from profiled import check_busy_queue, check_profile, driver_marks
from standin_rocm import on_hardware
from stored_opencl_c import check_stored
from transformer_port import check_transformer

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
@pytest.mark.parametrize("name", [name for name in SMALL_CASES if name != "resize"])  # ROCm has no images
def test_example(name: str, payload: bytes, device: Any) -> None:
    result = SMALL_CASES[name](devmod.loads(payload), device, REPOSITORY)
    assert result.error <= result.tolerance


@pytest.mark.row("R37")
@pytest.mark.volume
@pytest.mark.usefixtures("emulator")
def test_one_source(device: Any) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "gfx1100"
    check_one_source(device, "Slang", f"rocm -arch={arch}", SLANG)


@pytest.mark.row("R34")
@pytest.mark.usefixtures("emulator")
def test_a_stored_payload_of_opencl_c(device: Any) -> None:
    if device.arch.partition(":")[0] != "gfx1100":
        pytest.skip("the payload is for gfx1100")
    check_stored(device)


@pytest.mark.row("R37")
@pytest.mark.volume
@pytest.mark.usefixtures("emulator")
def test_the_transformer(device: Any, tmp_path: Path) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "gfx1100"
    check_transformer(device, f"rocm -arch={arch}", tmp_path)


@pytest.mark.usefixtures("emulator")
def test_a_guard_finds_writes_outside_of_arrays(device: Any) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "gfx1100"
    check_guard(device, f"rocm -arch={arch}")


@pytest.mark.volume
@pytest.mark.usefixtures("emulator")
def test_what_assert_kernel_finds_is_in_the_table(device: Any) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "gfx1100"
    check_faults(device, f"rocm -arch={arch}", "CUDA C++")


@pytest.mark.usefixtures("emulator")
def test_a_profile_records_launches_copies_builds_and_waits(device: Any, tmp_path: Path) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "gfx1100"
    check_profile(device, f"rocm -arch={arch}", tmp_path)


@pytest.mark.usefixtures("emulator")
def test_the_times_of_a_busy_queue_are_the_drivers(device: Any, tmp_path: Path) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "gfx1100"
    check_busy_queue(device, f"rocm -arch={arch}", 3, tmp_path, *driver_marks(device, "hip"))
