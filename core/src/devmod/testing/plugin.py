"""The kit in pytest: ``pytest_plugins = ["devmod.testing.plugin"]``, in a test module or in the topmost conftest.py.

It gives every class derived from `devmod.testing.Conformance` one test a row, and the fixture `device_turn`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from devmod.testing import Conformance, rows
from devmod.testing import device_turn as turn


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker of contract rows known."""
    config.addinivalue_line("markers", "row(*names): the rows of devmod's contract that a test shows")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a row."""
    if "conformance_row" in metafunc.fixturenames and metafunc.cls is not None and issubclass(metafunc.cls, Conformance):
        made = [pytest.param(row, id=row.id, marks=pytest.mark.row(row.contract)) for row in rows()]
        metafunc.parametrize("conformance_row", made)


@pytest.fixture
def device_turn() -> Callable[..., AbstractContextManager[None]]:
    """``with device_turn(kind, index=0):`` holds a device, while other workers wait. Compile outside of it."""
    return turn
