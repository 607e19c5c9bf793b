"""Slang for Metal on the device, or as C++ on the CPU."""

from __future__ import annotations

import pytest
from slang_computations import check
from slang_kernels import check_basics, check_images, check_matrices, check_matrix_blocks, check_parameters

pytestmark = pytest.mark.usefixtures("device")


def test_entry_points_and_instances() -> None:
    check_basics("metal")


def test_parameters_of_every_type() -> None:
    check_parameters("metal")


def test_matrices() -> None:
    check_matrices("metal")
    check_matrix_blocks("metal")


@pytest.mark.parametrize("name", ["constants", "logic"])
def test_results(name: str) -> None:
    check(name, "metal")


def test_images_and_samplers() -> None:
    check_images("metal")
