"""Slang on a device: entry points, instances, parameters of every type, images."""

from __future__ import annotations

import pytest
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
