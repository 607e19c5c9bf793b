"""The programs of examples/applications with OpenCL. The demo runs the other examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guarded import check_guard
from one_source import OPENCL_C, check_one_source
from pictures_port import check_pictures
from profiled import check_busy_queue, check_profile
from transformer_port import check_transformer

from devmod_opencl import _driver
from devmod_opencl._driver import cl


@pytest.mark.row("R37")
@pytest.mark.parametrize("target", ["opencl", pytest.param("opencl -format=il", marks=pytest.mark.volume)])
def test_one_source(target: str, device: Any) -> None:
    if target != "opencl" and not _driver.takes_il(device.handle):
        pytest.skip("the device builds no programs from SPIR-V")
    check_one_source(device, "OpenCL C", target, [*OPENCL_C, "resize"])


@pytest.mark.row("R37")
def test_the_transformer(device: Any, tmp_path: Path) -> None:
    check_transformer(device, "opencl", tmp_path)


@pytest.mark.row("R37")
def test_the_pictures(device: Any, tmp_path: Path) -> None:
    check_pictures(device, "opencl", tmp_path)


def test_a_guard_finds_writes_outside_of_arrays(device: Any) -> None:
    check_guard(device, "opencl")


def test_a_profile_records_launches_copies_builds_and_waits(device: Any, tmp_path: Path) -> None:
    check_profile(device, "opencl", tmp_path)


def test_the_times_of_a_busy_queue_are_the_drivers(device: Any, tmp_path: Path) -> None:
    def mark() -> Any:
        return cl.enqueue_marker(device.default_stream.queue)

    def between(earlier: Any, later: Any) -> float:
        return float(later.profile.end - earlier.profile.end) * 1e-9

    check_busy_queue(device, "opencl", 1_000_000, tmp_path, mark, between)
