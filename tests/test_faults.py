"""The table of docs/find-out-what-is-wrong.md: what `devmod.testing` finds. The plugins' tests compare each kind with its column."""

from __future__ import annotations

import pytest
from faults import FAULTS, FOUND, KINDS, check_faults, check_verify, table

import devmod


def test_the_table_has_each_fault() -> None:
    rows = table()
    assert sorted(rows) == sorted(fault.label for fault in FAULTS.values())
    assert len(rows) == 20
    assert {cell for row in rows.values() for cell in row.values()} <= set(FOUND)
    assert {tuple(row) for row in rows.values()} == {KINDS}


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")  # of pyopencl, for any text of a build
@pytest.mark.volume_but("opencl:0")
@pytest.mark.devices("opencl", "vulkan", "webgpu", "hexagon")
def test_what_is_found_on_each_device(device: devmod.Device) -> None:
    target = {"hexagon": "hexagon -arch=v66"}.get(device.kind, device.kind)
    check_faults(device, target, "OpenCL C" if device.kind == "opencl" else "Slang")


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")
@pytest.mark.volume  # test_verify.py has one for each finding
@pytest.mark.devices("vulkan")
def test_what_verify_finds(device: devmod.Device) -> None:
    check_verify(FAULTS)
