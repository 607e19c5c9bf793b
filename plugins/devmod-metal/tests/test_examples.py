"""The results of the examples, run by this plugin: on the GPU of a Mac, or on the double as C++ on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msl_on_cpu import COMPILER

import devmod

EXAMPLES = Path(__file__).parents[3] / "examples" / "metal"
needed = not COMPILER and sys.platform != "darwin"
pytestmark = [pytest.mark.row("R37"), pytest.mark.skipif(needed, reason="no C++ compiler is installed")]


def function(file: str, name: str) -> Any:
    """Return a function of a module that was saved and loaded."""
    module = devmod.compile(EXAMPLES / f"{file}.metal", "metal")
    return devmod.loads(devmod.dumps(module))[name]


def test_softmax(device: Any) -> None:
    x = np.random.default_rng(1).normal(0, 8, (6, 150)).astype(np.float32)
    x[::2] += 1e4
    y = np.zeros_like(x)
    function("softmax", "softmax")(x, y, x.shape[1], grid=len(x), block=64)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), atol=1e-6)


def test_matmul(device: Any) -> None:
    m, n, k = 20, 35, 18
    rng = np.random.default_rng(2)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float32)
    function("matmul", "matmul_tiled")(a, b, c, m, n, k, grid=(3, 2), block=(16, 16))
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, atol=1e-5)


def test_gaussian_blur(device: Any) -> None:
    height, width, radius = 21, 34, 3
    picture = np.random.default_rng(3).integers(0, 256, (height, width, 4), np.uint8)
    picture[..., 3] = 255
    weights = np.exp(-(np.arange(-radius, radius + 1) ** 2) / 6).astype(np.float32)
    weights /= weights.sum()
    between = np.zeros((height, width, 4), np.float32)
    blurred = np.zeros((height, width), np.uint32)
    shape = {"grid": (3, 2), "block": (16, 16)}
    function("gaussian_blur", "blur_rows")(picture.view(np.uint32), between, weights, radius, width, height, **shape)
    function("gaussian_blur", "blur_columns")(between, blurred, weights, radius, width, height, **shape)
    wanted = picture.astype(np.float64)
    for axis, count in ((1, width), (0, height)):
        places = [np.clip(np.arange(count) + offset, 0, count - 1) for offset in range(-radius, radius + 1)]
        wanted = sum(weight * np.take(wanted, place, axis=axis) for weight, place in zip(weights, places, strict=True))
    found = blurred.view(np.uint8).reshape(height, width, 4)
    assert np.abs(found - wanted).max() <= 0.502
    assert (found[..., 3] == 255).all()


def test_mandelbrot(device: Any) -> None:
    width, height, steps = 40, 26, 60
    left, top, pixel = np.float32(-2.25), np.float32(1.15), np.float32(0.0855)
    escape = np.zeros((height, width), np.float32)
    function("mandelbrot", "mandelbrot")(escape, width, height, float(left), float(top), float(pixel), steps, grid=(3, 2), block=(16, 16))
    wanted = np.zeros((height, width))
    for row in range(height):
        for column in range(width):
            cx, cy = left + np.float32(column) * pixel, top - np.float32(row) * pixel
            x = y = np.float32(0)
            for step in range(1, steps + 1):
                x, y = x * x - y * y + cx, np.float32(2) * x * y + cy
                if x * x + y * y > 256:
                    wanted[row, column] = step + 1 - np.log2(0.5 * np.log2(np.float64(x * x + y * y)))
                    break
    np.testing.assert_allclose(escape, wanted, atol=1e-3)
    assert (wanted == 0).any()
    assert (wanted > 0).any()


def test_reduction(device: Any) -> None:
    x = np.random.default_rng(4).uniform(0, 1, 1000).astype(np.float32)
    partial, total = np.zeros(3, np.float32), np.zeros(1, np.float32)
    f = function("reduction", "sum")
    f(x, partial, len(x), devmod.Local(4 * 128), grid=3, block=128)
    f(partial, total, 3, devmod.Local(4 * 128), grid=1, block=128)
    np.testing.assert_allclose(total[0], x.sum(dtype=np.float64), rtol=1e-6)
