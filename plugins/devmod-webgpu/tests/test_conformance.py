"""Every row of the contract, by the kit of core."""

from __future__ import annotations

from devmod_webgpu._conformance import WebGPUConformance

pytest_plugins = ["devmod_conformance.plugin"]


class TestConformance(WebGPUConformance):
    pass
