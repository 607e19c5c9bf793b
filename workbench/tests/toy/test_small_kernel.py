"""What `devmod.doctor` says of a device whose small kernel needs a program that is missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from devmod.errors import ToolchainNotFoundError
from devmod_workbench._tools import device_checks


class Broken(SimpleNamespace):
    """A module whose functions cannot be built here."""

    def _function_on(self, name: str, device: Any) -> Any:
        raise ToolchainNotFoundError("a program is missing")


@pytest.mark.parametrize(
    ("kind", "fmt", "problem"),
    [
        ("rocm", "hip", ""),  # binaries may run
        ("rocm", "hsaco", "a program is missing"),
        ("vulkan", "spv", "a program is missing"),
        ("hexagon", "so", "a program is missing"),
        ("opencl", "cl", "a program is missing"),
        ("cuda", "ptx", "a program is missing"),
    ],
)
def test_a_missing_compiler_is_no_problem_of_a_device_that_runs_binaries(
    kind: str, fmt: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SimpleNamespace(kind=kind, zeros=lambda *_: None)
    monkeypatch.setattr(device_checks, "find_device", lambda _: device)
    monkeypatch.setattr(device_checks, "_small_module", lambda kind: Broken(kind=kind, format=fmt))
    assert device_checks.device_problem(f"{kind}:0") == problem
