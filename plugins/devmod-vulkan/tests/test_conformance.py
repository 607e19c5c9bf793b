"""Every row of the contract, by the kit of core."""

from __future__ import annotations

from devmod_vulkan._conformance import VulkanConformance

pytest_plugins = ["devmod_conformance.plugin"]


class TestConformance(VulkanConformance):
    pass
