"""The tests see core and devmod-runtime, and no backend but the toy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import toy_backend as toy
from alone import no_installed_runtimes, register

__all__ = ["no_installed_runtimes", "register"]


@pytest.fixture(autouse=True)
def devices() -> Iterator[list[toy.ToyDevice]]:
    """Two new devices."""
    with toy.fresh_devices() as made:
        yield made
