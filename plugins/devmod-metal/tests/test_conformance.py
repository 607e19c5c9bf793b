"""Every row of the contract, with the conformance kit: on this machine, and on the double of
Metal.
"""

from __future__ import annotations

import sys
from typing import Any

import metal_standin
import pytest

from devmod_metal._conformance import MetalConformance

pytest_plugins = ["devmod_conformance.plugin"]


class TestConformance(MetalConformance):
    """The GPU of a Mac. On other machines the rows that run kernels are skipped, and the double's
    show the others.
    """

    pytestmark = [] if sys.platform == "darwin" else [pytest.mark.volume]


#: The rows whose kernels the double compiles.
COMPILED = ("R33-devices", "R34-scalars", "R37-elapsed", "R37-written", "R37-sampled")


class TestConformanceOfTheDouble(MetalConformance):
    """The backend on the double of Metal."""

    @pytest.fixture(autouse=True)
    def _double(self, double: Any, request: pytest.FixtureRequest) -> None:
        if any(row in request.node.name for row in COMPILED) and metal_standin.missing():
            pytest.skip(metal_standin.missing())
