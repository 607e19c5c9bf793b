"""The GLSL examples, built, saved, loaded and run on a device, with the calls and the NumPy references of the demo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import devmod

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from build import compile_kind  # noqa: E402
from cases import CASES  # noqa: E402


@pytest.fixture(scope="module")
def module() -> devmod.Module:
    try:
        return devmod.loads(devmod.dumps(devmod.bundle(*(made for _, made in compile_kind(REPOSITORY, "vulkan")))))
    except devmod.ToolchainNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.row("R37")
@pytest.mark.parametrize("name", [name for name in CASES if name != "TVM's matmul"])
def test_example(name: str, module: devmod.Module, device: Any) -> None:
    case, _ = CASES[name]
    found = case(module, device, REPOSITORY)
    assert found.error <= found.tolerance
