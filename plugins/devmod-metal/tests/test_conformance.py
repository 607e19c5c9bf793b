"""Every row of the contract, by the kit of core: with what this machine has, and with the double of Metal in its place."""

from __future__ import annotations

from typing import Any

import pytest

from devmod_metal._conformance import MetalConformance

pytest_plugins = ["devmod.testing.plugin"]


class TestConformance(MetalConformance):
    """On a Mac, its GPU. Elsewhere the rows that run something are skipped: there is no Metal."""


class TestConformanceOfTheDouble(MetalConformance):
    """Everything but Metal itself: the rows that run something run on the double."""

    @pytest.fixture(autouse=True)
    def _double(self, double: Any) -> None:
        pass
