"""The pytest plugin: ``pytest_plugins = ["devmod_conformance.plugin"]``, in a test module or in the
topmost conftest.py.

Every class derived from `devmod_conformance.Conformance` gets one test for each row. The fixture is
`device_turn`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from devmod_conformance import Conformance, rows
from devmod_conformance import device_turn as turn


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of contract rows."""
    config.addinivalue_line(
        "markers", "row(*names): the rows of devmod's contract that a test shows"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the tests with the rows."""
    if (
        "conformance_row" in metafunc.fixturenames
        and metafunc.cls is not None
        and issubclass(metafunc.cls, Conformance)
    ):
        parameters = [
            pytest.param(row, id=row.id, marks=pytest.mark.row(row.contract)) for row in rows()
        ]
        metafunc.parametrize("conformance_row", parameters)


@pytest.fixture
def device_turn() -> Callable[..., AbstractContextManager[object]]:
    """``with device_turn(kind, index=0):`` locks a device for other workers.

    Compile outside of it.
    """
    return turn
