"""The CUDA examples, built, saved, loaded and run, with the calls and the NumPy references of the demo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults import check_faults
from guarded import check_guard
from one_source import SLANG, check_one_source
from pictures_port import check_pictures
from profiled import check_busy_queue, check_profile, driver_marks
from standin_cuda import on_hardware
from transformer_port import check_transformer

import devmod
from devmod_targets.cuda.nvrtc import compile_program

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from build import TARGETS, compile_kind  # noqa: E402
from cases import CASES, SMALL_CASES  # noqa: E402


@pytest.fixture(scope="module")
def payload() -> bytes:
    if on_hardware():  # whose driver may be older than the PTX of this NVRTC
        TARGETS["cuda"] = f"cuda -arch={devmod.device('cuda').arch.partition(':')[0]}"
    try:
        return devmod.dumps(devmod.bundle(*(made for _, made in compile_kind(REPOSITORY, "cuda"))))
    except devmod.ToolchainNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture
def sources_as_ptx() -> Iterator[None]:
    """The stand-in driver executes PTX, and NVRTC would make a cubin for its device."""
    if on_hardware():
        yield
        return

    def compile_to_ptx(code: bytes) -> tuple[str, bytes]:
        return "ptx", compile_program(bytes(code).decode(), "kernel.cu", ["-arch=compute_75"]).ptx

    devmod.set_compiler("cuda", compile_to_ptx)
    yield
    devmod.set_compiler("cuda", None)


@pytest.mark.row("R37")
@pytest.mark.usefixtures("sources_as_ptx")
@pytest.mark.parametrize("name", SMALL_CASES)
def test_example(name: str, payload: bytes, device: Any) -> None:
    case = CASES[name][0] if on_hardware() else SMALL_CASES[name]
    result = case(devmod.loads(payload), device, REPOSITORY)
    assert result.error <= result.tolerance


@pytest.mark.row("R37")
def test_one_source(device: Any) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "compute_75"
    check_one_source(device, "Slang", f"cuda -arch={arch}", SLANG)


@pytest.mark.row("R37")
def test_the_transformer(device: Any, tmp_path: Path) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "compute_75"
    check_transformer(device, f"cuda -arch={arch}", tmp_path)


@pytest.mark.row("R37")
def test_the_pictures(device: Any, tmp_path: Path) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "compute_75"
    check_pictures(device, f"cuda -arch={arch}", tmp_path)


def test_a_guard_finds_writes_outside_of_arrays(device: Any) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "compute_75"
    check_guard(device, f"cuda -arch={arch}")


def test_what_assert_kernel_finds_is_in_the_table(device: Any) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "compute_75"
    check_faults(device, f"cuda -arch={arch}", "CUDA C++")


def test_a_profile_records_launches_copies_builds_and_waits(device: Any, tmp_path: Path) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "compute_75"
    check_profile(device, f"cuda -arch={arch}", tmp_path)


def test_the_times_of_a_busy_queue_are_the_drivers(device: Any, tmp_path: Path) -> None:
    arch = device.arch.partition(":")[0] if on_hardware() else "compute_75"
    check_busy_queue(device, f"cuda -arch={arch}", 3000, tmp_path, *driver_marks(device, "cu"))
