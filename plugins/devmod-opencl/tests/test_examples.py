"""The programs of examples/applications with OpenCL. The demo runs the other examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kind_programs import RANDOM, each_program
from one_source import OPENCL_C, check_one_source
from profiled import check_busy_queue

from devmod_opencl import _driver
from devmod_opencl._driver import cl


@pytest.mark.row("R37")
@pytest.mark.parametrize(
    "target", ["opencl", pytest.param("opencl -format=il", marks=pytest.mark.volume)]
)
def test_one_source(target: str, device: Any) -> None:
    if target != "opencl" and not _driver.takes_il(device.handle):
        pytest.skip("the device builds no programs from SPIR-V")
    check_one_source(device, "OpenCL C", target, [*OPENCL_C, "resize"])


@each_program("transformer", "pictures", "guard", "profile", *RANDOM)
def test_programs(program: Any, device: Any, tmp_path: Path) -> None:
    program(device, "opencl", tmp_path)


def test_the_times_of_a_busy_queue_are_the_drivers(device: Any, tmp_path: Path) -> None:
    def mark() -> Any:
        return cl.enqueue_marker(device.default_stream.queue)

    def between(earlier: Any, later: Any) -> float:
        return float(later.profile.end - earlier.profile.end) * 1e-9

    check_busy_queue(device, "opencl", 1_000_000, tmp_path, mark, between)
