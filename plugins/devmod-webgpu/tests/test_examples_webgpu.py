"""The examples in WGSL, against the NumPy references of the demo."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod

REPOSITORY = Path(__file__).parents[3]
FILES = {
    "softmax": "softmax.wgsl",
    "tiled matmul": "matmul.wgsl",
    "Gaussian blur": "gaussian_blur.wgsl",
    "Mandelbrot": "mandelbrot.wgsl",
    "sum": "reduction.wgsl",
}


@pytest.mark.row("R37")
@pytest.mark.parametrize("name", FILES)
def test_example(name: str, device: Any, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="the pictures of the demo are read with Pillow")
    cases = runpy.run_path(str(REPOSITORY / "examples" / "demo" / "cases.py"))
    case, functions = cases["CASES"][name]
    built = devmod.compile(REPOSITORY / "examples" / "webgpu" / FILES[name], "webgpu")
    devmod.save(built, tmp_path / "example.devmod")
    module = devmod.load(tmp_path / "example.devmod")
    assert set(module.functions) == set(functions)
    found = case(cases["Runner"](module, device), REPOSITORY)
    assert found.error <= found.tolerance


def test_the_tile_is_an_override(device: Any) -> None:
    f = devmod.compile(REPOSITORY / "examples" / "webgpu" / "matmul.wgsl", "webgpu")["matmul_tiled"].specialize(TILE=8)
    a, b = np.random.default_rng(0).random((2, 30, 30), "float32")
    c = np.zeros((30, 30), "float32")
    f(a, b, c, 30, 30, 30, grid=(4, 4), block=(8, 8))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
