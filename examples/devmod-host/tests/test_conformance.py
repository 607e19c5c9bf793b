"""Every row of the contract, with the samples of the wheel."""

from __future__ import annotations

from devmod_host._conformance import HostConformance


class TestConformance(HostConformance):
    pass
