"""The CUDA examples, built, saved, loaded and run, with the calls and the NumPy references of the
demo.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kind_programs import RANDOM, each_program, results
from profiled import check_busy_queue, driver_marks
from slang_computations import KERNELS
from standin_cuda import on_hardware

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


def target_of(device: Any) -> str:
    return f"cuda -arch={device.arch.partition(':')[0] if on_hardware() else 'compute_75'}"


@each_program(
    "one source",
    "transformer",
    "pictures",
    "guard",
    "faults",
    "profile",
    *RANDOM,
    *results(KERNELS),
)
def test_programs(program: Any, device: Any, tmp_path: Path) -> None:
    program(device, target_of(device), tmp_path)


def test_the_times_of_a_busy_queue_are_the_drivers(device: Any, tmp_path: Path) -> None:
    check_busy_queue(device, target_of(device), 3000, tmp_path, *driver_marks(device, "cu"))
