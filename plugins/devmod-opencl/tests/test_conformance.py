"""Every row of the contract, by the kit of core."""

from __future__ import annotations

from devmod_opencl._conformance import OpenCLConformance

pytest_plugins = ["devmod.testing.plugin"]


class TestConformance(OpenCLConformance):
    pass
