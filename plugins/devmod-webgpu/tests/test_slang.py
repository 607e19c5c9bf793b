"""Slang on a device: entry points, instances, parameters of every type, images."""

from __future__ import annotations

from typing import Any

import pytest
import random_programs
from slang_kernels import check_basics, check_images, check_matrices, check_matrix_blocks, check_parameters

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.row("R34")
def test_entry_points_and_instances() -> None:
    check_basics("webgpu")


@pytest.mark.row("R34")
def test_parameters_of_every_type() -> None:
    check_parameters("webgpu")


@pytest.mark.row("R34")
def test_matrices() -> None:
    check_matrices("webgpu")
    check_matrix_blocks("webgpu")


def test_images_and_samplers() -> None:
    check_images("webgpu")


@pytest.mark.volume_but("few")
@pytest.mark.parametrize("seeds", random_programs.SEEDS)
def test_random_programs(device: Any, seeds: str) -> None:
    random_programs.check(device, seeds)
