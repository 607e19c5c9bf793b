"""examples/applications/pictures, built for one target and checked on a device: the same test for
each kind.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import devmod

PROJECT = Path(__file__).resolve().parents[2] / "examples" / "applications" / "pictures"
sys.path.insert(0, str(PROJECT))

from pictures import TOLERANCES, check, make_picture  # noqa: E402

__all__ = ["check_pictures"]


def check_pictures(
    device: Any, target: str, folder: Path, *, width: int = 61, height: int = 35
) -> None:
    """Build the programs for a target, and compare each step with NumPy."""
    devmod.build(
        PROJECT, targets=[target], output=folder / "pictures.devmod", cache=False
    ).raise_for_failures()
    differences = check(
        devmod.load(folder / "pictures.devmod"), device, make_picture(48, 40), width, height
    )
    assert {
        name: value for name, value in differences.items() if not value <= TOLERANCES[name]
    } == {}
