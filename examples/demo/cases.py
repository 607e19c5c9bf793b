"""The kernels of the demo: inputs, a run on a device, and the reference result by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import devmod


@dataclass
class Result:
    """The result of a run."""

    seconds: float  # on the device, of all its launches
    error: float  # the largest absolute difference to the reference
    tolerance: float
    pictures: dict[str, np.ndarray] = field(default_factory=dict)


class Runner:
    """Launch with device arrays, and add up the time on the device."""

    def __init__(self, module: devmod.Module, device: devmod.Device) -> None:
        self.module, self.device, self.seconds = module, device, 0.0

    def local(self, nbytes: int) -> list[Any]:
        """Return shared memory as the last argument, if the kind takes it so."""
        return [devmod.Local(nbytes)] if self.device.kind in ("opencl", "metal") else []

    def put(self, array: np.ndarray) -> Any:
        """Return a copy on the device."""
        return self.device.from_numpy(array)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return an uninitialized array on the device."""
        return self.device.empty(shape, dtype)

    def __call__(self, name: str, *args: Any, grid: Any, block: Any = None) -> None:
        """Launch once to warm up, then three times, and add the best time."""
        launch = self.module[name].bind(*args, grid=grid, block=block)
        self.seconds += min(launch.time() for _ in range(4))


def softmax(run: Runner, _: Path) -> Result:
    """Rows of very different size, some with large values that a softmax without the maximum would overflow on."""
    rows, columns = 512, 1000
    x = np.random.default_rng(1).normal(0, 8, (rows, columns)).astype(np.float32)
    x[::7] += 1e4
    y = run.empty(x.shape, "float32")
    run("softmax", run.put(x), y, columns, grid=rows, block=64)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return Result(run.seconds, _largest(y.numpy(), e / e.sum(axis=1, keepdims=True)), 1e-6)


def matmul_tiled(run: Runner, _: Path) -> Result:
    """Sizes that are no multiples of the tile."""
    m, n, k, tile = 250, 310, 190, 16
    rng = np.random.default_rng(2)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    c = run.empty((m, n), "float32")
    run("matmul_tiled", run.put(a), run.put(b), c, m, n, k, grid=(-(-n // tile), -(-m // tile)), block=(tile, tile))
    return Result(run.seconds, _largest(c.numpy(), a.astype(np.float64) @ b), 1e-4)


def gaussian_blur(run: Runner, repository: Path) -> Result:
    """The picture of the lake, by two launches."""
    picture = np.asarray(Image.open(repository / "examples" / "images" / "lake.png").convert("RGB"))
    height, width, _ = picture.shape
    radius, sigma = 9, 3.5
    weights = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * sigma**2)).astype(np.float32)
    weights /= weights.sum()
    # A pixel is one uint32, red in the lowest byte.
    pixels = np.dstack([picture, np.full((height, width, 1), 255, np.uint8)]).view(np.uint32)
    between, blurred = run.empty((height, width, 4), "float32"), run.empty((height, width), "uint32")
    on_device = run.put(weights)
    shape = {"grid": (-(-width // 16), -(-height // 16)), "block": (16, 16)}
    run("blur_rows", run.put(pixels), between, on_device, radius, width, height, **shape)
    run("blur_columns", between, blurred, on_device, radius, width, height, **shape)
    found = blurred.numpy().view(np.uint8).reshape(height, width, -1)[..., :3]

    wanted = picture.astype(np.float64)
    for axis, count in ((1, width), (0, height)):
        places = [np.clip(np.arange(count) + offset, 0, count - 1) for offset in range(-radius, radius + 1)]
        wanted = sum(weight * np.take(wanted, place, axis=axis) for weight, place in zip(weights, places, strict=True))
    both = np.concatenate([picture, np.full((height, 6, 3), 255, np.uint8), found], axis=1)
    # The kernel rounds to whole levels, so half a level is right, and float32 may fall on the other side of a half.
    return Result(run.seconds, _largest(found, wanted), 0.502, {"blur.png": both})


def mandelbrot(run: Runner, _: Path) -> Result:
    """The whole set; the reference takes the same steps in float32."""
    width, height, steps = 720, 480, 300
    left, top, pixel = np.float32(-2.25), np.float32(1.15), np.float32(0.0048)
    escape = run.empty((height, width), "float32")
    shape = {"grid": (-(-width // 16), -(-height // 16)), "block": (16, 16)}
    run("mandelbrot", escape, width, height, float(left), float(top), float(pixel), steps, **shape)

    cx = np.broadcast_to(left + np.arange(width, dtype=np.float32) * pixel, (height, width)).ravel()
    cy = np.repeat(top - np.arange(height, dtype=np.float32) * pixel, width)
    wanted = np.zeros(cx.size)
    x, y, left_in = np.zeros_like(cx), np.zeros_like(cx), np.arange(cx.size)
    for step in range(1, steps + 1):
        x, y = x * x - y * y + cx, np.float32(2) * x * y + cy
        square = x * x + y * y
        out = square > 256
        wanted[left_in[out]] = step + 1 - np.log2(0.5 * np.log2(square[out].astype(np.float64)))
        x, y, cx, cy, left_in = (part[~out] for part in (x, y, cx, cy, left_in))
    found = escape.numpy()
    return Result(run.seconds, _largest(found, wanted.reshape(height, width)), 1e-3, {"mandelbrot.png": _coloured(found)})


def total(run: Runner, _: Path) -> Result:
    """A million floats in two launches; relative to their sum."""
    n, groups, threads = 1_000_000, 64, 128
    x = np.random.default_rng(3).uniform(0, 1, n).astype(np.float32)
    partial, result = run.empty((groups,), "float32"), run.empty((1,), "float32")
    scratch = run.local(4 * threads)
    run("sum", run.put(x), partial, n, *scratch, grid=groups, block=threads)
    run("sum", partial, result, groups, *scratch, grid=1, block=threads)
    wanted = x.sum(dtype=np.float64)
    return Result(run.seconds, abs(float(result.numpy()[0]) - wanted) / wanted, 1e-6)


def tvm_matmul(run: Runner, _: Path) -> Result:
    """TVM's kernel, with its own launch: 8 × 8 blocks of 64 threads."""
    rng = np.random.default_rng(4)
    a, b = (rng.uniform(-1, 1, (64, 64)).astype(np.float32) for _ in range(2))
    c = run.empty((64, 64), "float32")
    run("matmul_kernel", run.put(a), run.put(b), c, grid=(8, 8), block=(8, 8))
    return Result(run.seconds, _largest(c.numpy(), a.astype(np.float64) @ b), 1e-4)


CASES: dict[str, tuple[Callable[[Runner, Path], Result], tuple[str, ...]]] = {
    "softmax": (softmax, ("softmax",)),
    "tiled matmul": (matmul_tiled, ("matmul_tiled",)),
    "Gaussian blur": (gaussian_blur, ("blur_rows", "blur_columns")),
    "Mandelbrot": (mandelbrot, ("mandelbrot",)),
    "sum": (total, ("sum",)),
    "TVM's matmul": (tvm_matmul, ("matmul_kernel",)),
}


def _largest(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(np.asarray(found, np.float64) - wanted).max())


def _coloured(escape: np.ndarray) -> np.ndarray:
    """A picture of escape times: a cycle of colours over their square root, the set itself black."""
    phase = np.sqrt(escape)[..., None] * 0.9 + np.array([3.4, 2.6, 1.7])
    picture = (0.5 - 0.5 * np.cos(phase)) * np.array([255, 236, 250])
    picture[escape == 0] = 0
    return picture.astype(np.uint8)
