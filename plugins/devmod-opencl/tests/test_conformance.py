"""Every row of the contract, with the conformance kit."""

from __future__ import annotations

from devmod_opencl._conformance import OpenCLConformance

pytest_plugins = ["devmod_conformance.plugin"]


class TestConformance(OpenCLConformance):
    pass
