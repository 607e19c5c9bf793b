"""Every row of the contract, with the conformance kit."""

from __future__ import annotations

import pytest

from devmod_opencl._conformance import OpenCLConformance

pytest_plugins = ["devmod_conformance.plugin"]


@pytest.mark.parametrize(
    "device",
    [pytest.param(0, id="first"), pytest.param(1, id="second", marks=pytest.mark.volume)],
    indirect=True,
)
@pytest.mark.usefixtures("device")
class TestConformance(OpenCLConformance):
    pass
