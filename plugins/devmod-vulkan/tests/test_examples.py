"""The GLSL examples, compiled, run on a device and compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod

EXAMPLES = Path(__file__).parents[3] / "examples" / "vulkan"


def example(name: str) -> devmod.Function:
    try:
        return devmod.compile(EXAMPLES / f"{name}.comp", "vulkan")[name]
    except devmod.ToolchainNotFoundError as error:
        pytest.skip(str(error))


def test_softmax(device: Any) -> None:
    x = np.random.default_rng(1).normal(0, 8, (40, 1000)).astype("float32")
    x[::7] += 1e4
    y = np.zeros_like(x)
    example("softmax")(x, y, 1000, grid=40)
    e = np.exp(x.astype("float64") - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), atol=1e-6)


def test_matmul(device: Any) -> None:
    m, n, k = 45, 70, 33
    rng = np.random.default_rng(2)
    a, b, c = rng.random((m, k), "float32"), rng.random((k, n), "float32"), np.zeros((m, n), "float32")
    example("matmul_tiled")(a, b, c, m, n, k, grid=(-(-n // 16), -(-m // 16)))
    np.testing.assert_allclose(c, a.astype("float64") @ b, rtol=1e-5)


def test_sum(device: Any) -> None:
    x, partial = np.random.default_rng(3).random(100_001, "float32"), np.zeros(20, "float32")
    example("sum")(x, partial, x.size, grid=20)
    np.testing.assert_allclose(partial.sum(dtype="float64"), x.sum(dtype="float64"), rtol=1e-5)


def test_mandelbrot(device: Any) -> None:
    width, height, steps = 50, 37, 60
    left, top, pixel = np.float32(-2.0), np.float32(1.1), np.float32(0.06)
    escape = np.zeros((height, width), "float32")
    example("mandelbrot")(escape, width, height, left, top, pixel, steps, grid=(4, 3))
    cx = np.broadcast_to(left + np.arange(width, dtype="float32") * pixel, escape.shape)
    cy = np.broadcast_to((top - np.arange(height, dtype="float32") * pixel)[:, None], escape.shape)
    x, y, wanted = np.zeros_like(cx), np.zeros_like(cx), np.zeros(escape.shape)
    going = np.ones(escape.shape, bool)
    for step in range(1, steps + 1):
        with np.errstate(all="ignore"):
            x, y = x * x - y * y + cx, np.float32(2) * x * y + cy
            square = x * x + y * y
        out = going & (square > 256)
        wanted[out] = step + 1 - np.log2(0.5 * np.log2(square[out].astype("float64")))
        going &= ~out
    np.testing.assert_allclose(escape, wanted, atol=1e-3)


def test_blur(device: Any) -> None:
    height, width, radius = 20, 33, 3
    rng = np.random.default_rng(4)
    picture = rng.integers(0, 256, (height, width, 4), "uint8")
    weights = rng.random(2 * radius + 1, "float32")
    weights /= weights.sum()
    between = device.empty((height, width), "float32x4")
    blurred = np.zeros((height, width), "uint32")
    grid = (-(-width // 16), -(-height // 16))
    example("blur_rows")(picture.view("uint32")[..., 0], between, weights, radius, width, height, grid=grid)
    example("blur_columns")(between, blurred, weights, radius, width, height, grid=grid)
    wanted = np.pad(picture[..., :3].astype("float64"), ((radius, radius), (radius, radius), (0, 0)), "edge")
    wanted = sum(weights[i] * wanted[:, i : i + width] for i in range(2 * radius + 1))  # type: ignore[assignment]
    wanted = sum(weights[i] * wanted[i : i + height] for i in range(2 * radius + 1))  # type: ignore[assignment]
    got = blurred[..., None].view("uint8").reshape(height, width, 4)
    assert abs(got[..., :3] - wanted).max() <= 0.51
    assert got[..., 3].min() == 255
