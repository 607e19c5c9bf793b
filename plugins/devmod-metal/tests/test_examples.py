"""The Metal examples, built, saved, loaded and run by this plugin: on the GPU of a Mac, or as C++
on the CPU behind the double of Metal.

The calls and the NumPy references are those of the demo.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import metal_standin
import pytest
from kind_programs import RANDOM, each_program, results
from profiled import check_busy_queue

import devmod

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from build import compile_kind  # noqa: E402
from cases import CASES  # noqa: E402

no_compiler = metal_standin.missing() if sys.platform != "darwin" else ""
pytestmark = pytest.mark.skipif(bool(no_compiler), reason=no_compiler)

#: Sizes of the cases whose kernels have barriers: each thread of a block is a thread of the CPU.
SMALL = {
    "softmax": {"rows": 6, "columns": 150},
    "tiled matmul": {"m": 20, "n": 35, "k": 18},
    "sum": {"n": 100_001, "groups": 3},
}


@pytest.fixture(scope="module")
def module() -> devmod.Module:
    return devmod.loads(
        devmod.dumps(devmod.bundle(*(made for _, made in compile_kind(REPOSITORY, "metal"))))
    )


@pytest.mark.row("R37")
@pytest.mark.parametrize("name", [name for name in CASES if name != "TVM's matmul"])
def test_example(name: str, module: devmod.Module, device: Any) -> None:
    case, _ = CASES[name]
    found = case(module, device, REPOSITORY, **SMALL.get(name, {}))
    assert found.error <= found.tolerance


@each_program(
    *(
        "one source",
        "transformer",
        "pictures",
        "guard",
        "faults",
        "profile",
        "entry points",
        "parameters",
        "matrices",
        "images",
    ),
    *(*RANDOM, *results(["constants", "logic"])),
    volume=(
        "one source",
        "transformer",
        "faults",
    ),  # the double compiles each of 38 kernels for itself
)
def test_programs(program: Any, device: Any, tmp_path: Path) -> None:
    program(device, "metal", tmp_path)


def test_the_times_of_a_busy_queue_are_its_own(device: Any, tmp_path: Path) -> None:
    check_busy_queue(device, "metal", 1000, tmp_path)
