"""The kit's rows on qemu-hexagon."""

from __future__ import annotations

from devmod_hexagon._conformance import HexagonConformance

pytest_plugins = ["devmod_conformance.plugin"]


class TestConformance(HexagonConformance):
    pass
