"""The contract, row by row: the cases that the wheel ships are the tests."""

from __future__ import annotations

from devmod_host._conformance import HostConformance


class TestConformance(HostConformance):
    pass
