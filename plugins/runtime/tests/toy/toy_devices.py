"""The fixture of two new devices, for each test of a folder whose conftest.py imports it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import toy_backend as toy


@pytest.fixture(autouse=True)
def devices() -> Iterator[list[toy.ToyDevice]]:
    """Two new devices."""
    with toy.fresh_devices() as made:
        yield made
