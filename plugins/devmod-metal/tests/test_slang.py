"""Slang for Metal on the device, or as C++ on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import random_programs
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


@pytest.mark.volume_but("few")
@pytest.mark.parametrize("seeds", random_programs.SEEDS)
def test_random_programs(device: Any, seeds: str) -> None:
    random_programs.check(device, seeds)
