"""Every row of the contract, with the conformance kit."""

from __future__ import annotations

import pytest

from devmod_opencl._conformance import OpenCLConformance

pytest_plugins = ["devmod_conformance.plugin"]


@pytest.mark.usefixtures("device")
class TestConformance(OpenCLConformance):
    pass
