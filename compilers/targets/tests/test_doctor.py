"""What the build side adds to `devmod.doctor`: the compiler of each kind, tried on a small
kernel.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import devmod
from devmod.targets import KINDS
from devmod_targets.doctor import devmod_doctor


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_compiles_its_kernel(kind: str) -> None:
    ((part, state, text),) = devmod_doctor(kind)
    assert (part, state) == ("compiler", "ok")
    assert text.startswith("compiles by ")


def test_a_missing_toolchain_is_its_own_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DEVMOD_CLANG", str(tmp_path / "missing"))
    ((part, state, text),) = devmod_doctor("hexagon")
    assert (part, state) == ("compiler", "not installed")
    assert (
        text == f"cannot compile the C source: DEVMOD_CLANG={tmp_path / 'missing'} is not a program"
    )


def test_a_kind_of_another_distribution_is_its_own_matter() -> None:
    assert devmod_doctor("npu") == []


def test_the_report_has_the_compilers() -> None:
    report = devmod.doctor(["webgpu"])
    assert [each.text for each in report.checks if each.part == "compiler"] == [
        "compiles by devmod WGSL reader 1"
    ]
