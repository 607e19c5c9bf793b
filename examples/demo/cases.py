"""The kernels of the demo: inputs, a call, and the reference result by NumPy. The calls are the
same on every kind of device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import devmod


@dataclass
class Result:
    """The result of a case."""

    error: float  # the largest difference to the reference
    tolerance: float
    pictures: dict[str, np.ndarray] = field(default_factory=dict)


class Timed:
    """A module whose calls run on one device. It sums their time on the device, and records their
    text.

    Parameters
    ----------
    module, device
        The module, and the device.
    launches
        The launches of each call that are timed. The best time counts.
    """

    def __init__(self, module: devmod.Module, device: devmod.Device, launches: int = 4) -> None:
        self.module, self.device, self.launches = module, device, launches
        self.seconds = 0.0
        self.calls: list[str] = []

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return a function that calls a kernel, then launches it some more times and adds the best
        time.
        """
        return partial(self._call, name)

    def _call(self, name: str, /, *args: Any, **named: Any) -> Any:
        self.calls.append(text_of_call(name, args, named))
        function = self.module[name].on(self.device)
        result = function(*args, **named)
        if self.launches:
            launch = function.bind(*args, **named)
            self.seconds += min(launch.time() for _ in range(self.launches))
        return result


def text_of_call(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Return a call as a line of Python, with `…` for each array."""
    parts = [*map(_text, args), *(f"{key}={_text(value)}" for key, value in named.items())]
    return f'module["{name}"].on(device)({", ".join(parts)})'


def softmax(module: Any, device: Any, _: Path, *, rows: int = 512, columns: int = 1000) -> Result:
    """Rows of different scale. Some have large values, on which a softmax without the maximum
    overflows.
    """
    values = np.random.default_rng(1).normal(0, 8, (rows, columns)).astype(np.float32)
    values[::7] += 1e4
    x, y = device.from_numpy(values), device.empty(values.shape, "float32")
    module["softmax"](x=x, y=y, columns=columns, grid=rows)
    e = np.exp(values.astype(np.float64) - values.max(axis=1, keepdims=True))
    return Result(_largest(y.numpy(), e / e.sum(axis=1, keepdims=True)), 1e-6)


def matmul_tiled(
    module: Any, device: Any, _: Path, *, m: int = 250, n: int = 310, k: int = 190
) -> Result:
    """Sizes that are no multiples of the tile."""
    rng = np.random.default_rng(2)
    left, right = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    a, b, c = device.from_numpy(left), device.from_numpy(right), device.empty((m, n), "float32")
    module["matmul_tiled"](a=a, b=b, c=c, m=m, n=n, k=k, threads=(n, m))
    return Result(_largest(c.numpy(), left.astype(np.float64) @ right), 1e-4)


def gaussian_blur(module: Any, device: Any, repository: Path, *, part: float = 1) -> Result:
    """The picture of the lake, or the upper left part of it, by two launches."""
    original = np.asarray(
        Image.open(repository / "examples" / "images" / "lake.png").convert("RGB")
    )
    original = original[: int(original.shape[0] * part), : int(original.shape[1] * part)]
    height, width, _ = original.shape
    radius, sigma = 9, 3.5
    gauss = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * sigma**2)).astype(np.float32)
    gauss /= gauss.sum()
    # A pixel is one uint32, red in the lowest byte.
    pixels = np.dstack([original, np.full((height, width, 1), 255, np.uint8)]).view(np.uint32)
    picture, weights = device.from_numpy(pixels), device.from_numpy(gauss)
    between, blurred = (
        device.empty((height, width, 4), "float32"),
        device.empty((height, width), "uint32"),
    )
    size = {"radius": radius, "width": width, "height": height}
    module["blur_rows"](
        picture=picture, between=between, weights=weights, **size, threads=(width, height)
    )
    module["blur_columns"](
        between=between, blurred=blurred, weights=weights, **size, threads=(width, height)
    )
    pixels = blurred.numpy().view(np.uint8).reshape(height, width, 4)[..., :3]

    reference = original.astype(np.float64)
    for axis, count in ((1, width), (0, height)):
        places = [
            np.clip(np.arange(count) + offset, 0, count - 1)
            for offset in range(-radius, radius + 1)
        ]
        reference = sum(
            weight * np.take(reference, place, axis=axis)
            for weight, place in zip(gauss, places, strict=True)
        )
    both = np.concatenate([original, np.full((height, 6, 3), 255, np.uint8), pixels], axis=1)
    # The kernel rounds to whole levels, so the tolerance is half a level and the error of float32.
    return Result(_largest(pixels, reference), 0.502, {"blur.png": both})


def resize(module: Any, device: Any, repository: Path, *, part: float = 1) -> Result:
    """The picture of the lake in another size, by a linear sampler."""
    original = np.asarray(
        Image.open(repository / "examples" / "images" / "lake.png").convert("RGBA")
    )
    original = original[: int(original.shape[0] * part), : int(original.shape[1] * part)]
    width, height = original.shape[1] * 5 // 3, original.shape[0] * 4 // 7
    source, result = device.image_from_numpy(original), device.image((width, height), "rgba8unorm")
    how = device.sampler(filter="linear", address="clamp")
    module["resize"](
        source=source,
        source_sampler=how,
        result=result,
        width=width,
        height=height,
        threads=(width, height),
    )

    reference = original.astype(np.float64)
    for axis, count in ((0, height), (1, width)):
        old = reference.shape[axis]
        place = (np.arange(count) + 0.5) / count * old - 0.5
        first = np.floor(place).astype(int)
        weight = np.expand_dims(place - first, (1, 2) if axis == 0 else (0, 2))
        before, after = (
            np.take(reference, np.clip(each, 0, old - 1), axis=axis) for each in (first, first + 1)
        )
        reference = before * (1 - weight) + after * weight
    # Half a level by rounding, and up to a level because samplers have weights of 8 bits.
    return Result(_largest(result.numpy(), reference), 1.502)


def mandelbrot(
    module: Any, device: Any, _: Path, *, width: int = 720, height: int = 480, steps: int = 300
) -> Result:
    """The whole set; the reference takes the same steps in float32."""
    left, top, pixel = np.float32(-2.25), np.float32(1.15), np.float32(3.456 / width)
    escape = device.empty((height, width), "float32")
    view = {"left": float(left), "top": float(top), "pixel": float(pixel)}
    module["mandelbrot"](
        escape=escape, width=width, height=height, **view, steps=steps, threads=(width, height)
    )

    cx = np.broadcast_to(left + np.arange(width, dtype=np.float32) * pixel, (height, width)).ravel()
    cy = np.repeat(top - np.arange(height, dtype=np.float32) * pixel, width)
    reference = np.zeros(cx.size)
    x, y, remaining = np.zeros_like(cx), np.zeros_like(cx), np.arange(cx.size)
    for step in range(1, steps + 1):
        x, y = x * x - y * y + cx, np.float32(2) * x * y + cy
        square = x * x + y * y
        out = square > 256
        reference[remaining[out]] = (
            step + 1 - np.log2(0.5 * np.log2(square[out].astype(np.float64)))
        )
        x, y, cx, cy, remaining = (part[~out] for part in (x, y, cx, cy, remaining))
    times = escape.numpy()
    return Result(
        _largest(times, reference.reshape(height, width)), 1e-3, {"mandelbrot.png": coloured(times)}
    )


def total(module: Any, device: Any, _: Path, *, n: int = 1_000_000, groups: int = 64) -> Result:
    """Many floats in two launches; the error is relative to their sum."""
    values = np.random.default_rng(3).uniform(0, 1, n).astype(np.float32)
    x, partial, result = (
        device.from_numpy(values),
        device.empty((groups,), "float32"),
        device.empty((1,), "float32"),
    )
    module["sum"](x=x, partial=partial, n=n, grid=groups)
    module["sum"](x=partial, partial=result, n=groups, grid=1)
    reference = values.sum(dtype=np.float64)
    return Result(abs(float(result.numpy()[0]) - reference) / reference, 1e-6)


def tvm_matmul(module: Any, device: Any, _: Path) -> Result:
    """TVM's kernel, with its own launch: 8 × 8 blocks of 64 threads. TVM records no names, so the
    arguments are by position.
    """
    rng = np.random.default_rng(4)
    left, right = (rng.uniform(-1, 1, (64, 64)).astype(np.float32) for _ in range(2))
    a, b, c = device.from_numpy(left), device.from_numpy(right), device.empty((64, 64), "float32")
    module["matmul_kernel"](a, b, c, grid=(8, 8), block=(8, 8))
    return Result(_largest(c.numpy(), left.astype(np.float64) @ right), 1e-4)


def fitted_gaussian(module: Any, device: Any, _: Path, *, n: int = 500, steps: int = 6) -> Result:
    """Gauss and Newton's method. The kernels give the values and their derivatives; the reference
    has its own derivatives in float64.
    """
    places = np.linspace(-3, 3, n, dtype=np.float32)
    x, y, gradient = (
        device.from_numpy(places),
        device.empty((n,), "float32"),
        device.empty((n, 3), "float32"),
    )

    def on_device(estimate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parameters = device.from_numpy(estimate.astype(np.float32))
        module["gaussian"](x=x, parameters=parameters, y=y, n=n, threads=n)
        module["gaussian_gradient"](x=x, parameters=parameters, gradient=gradient, n=n, threads=n)
        return y.numpy(), gradient.numpy()

    def by_numpy(estimate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        height, mean, width = estimate
        d = (places.astype(np.float64) - mean) / width
        e = np.exp(-0.5 * d * d)
        return height * e, np.stack([e, height * e * d / width, height * e * d * d / width], axis=1)

    measured = by_numpy(np.array([1.5, 0.4, 0.8]))[0] + np.random.default_rng(5).normal(0, 0.05, n)
    fits = []
    for model in (on_device, by_numpy):
        estimate = np.array([1.0, 0.0, 1.0])
        for _step in range(steps):
            values, derivatives = model(estimate)
            estimate = estimate + np.linalg.lstsq(derivatives, measured - values, rcond=None)[0]
        fits.append(estimate)
    return Result(_largest(*fits), 1e-5)


# Where to change: an example: a kernel of the demo, or an application
#   here: `CASES`, and a function that compares a kernel with NumPy; `SMALL_CASES`
#   also: a source of the kernel for each kind, in the folders of `examples/`; its name and its
#     parameters in `tests/test_examples.py` (`SIGNATURES`), and a call in `examples/README.md`.
#     An application is a folder with a README.md, a line in `examples/README.md` and a test
#   tests: `tests/test_examples.py`
#: From the name of a case to its function, and the functions of the module that it calls.
CASES: dict[str, tuple[Callable[..., Result], tuple[str, ...]]] = {
    "softmax": (softmax, ("softmax",)),
    "tiled matmul": (matmul_tiled, ("matmul_tiled",)),
    "Gaussian blur": (gaussian_blur, ("blur_rows", "blur_columns")),
    "resize": (resize, ("resize",)),
    "Mandelbrot": (mandelbrot, ("mandelbrot",)),
    "sum": (total, ("sum",)),
    "TVM's matmul": (tvm_matmul, ("matmul_kernel",)),
}

#: The cases of examples/one_source/, which also has a kernel that Slang derives from another.
ONE_SOURCE_CASES = CASES | {"fitted Gaussian": (fitted_gaussian, ("gaussian", "gaussian_gradient"))}

#: The cases with sizes for an emulator, which executes one instruction after another.
SMALL_CASES: dict[str, Callable[..., Result]] = {
    "softmax": partial(softmax, rows=6, columns=100),
    "tiled matmul": partial(matmul_tiled, m=20, n=35, k=18),
    "Gaussian blur": partial(gaussian_blur, part=0.1),
    "resize": partial(resize, part=0.1),
    "Mandelbrot": partial(mandelbrot, width=96, height=64, steps=50),
    "sum": partial(total, n=3000, groups=4),
}
SMALL_ONE_SOURCE_CASES: dict[str, Callable[..., Result]] = SMALL_CASES | {
    "fitted Gaussian": partial(fitted_gaussian, n=50)
}


def dsp_softmax(module: Any, device: Any) -> Result:
    """The softmax of the other kinds on fewer rows."""
    values = np.random.default_rng(1).normal(0, 8, (40, 100)).astype(np.float32)
    x, y = device.from_numpy(values), device.empty(values.shape, "float32")
    module["softmax"](x=x, y=y, columns=100, rows=40)
    e = np.exp(values.astype(np.float64) - values.max(axis=1, keepdims=True))
    return Result(_largest(y.numpy(), e / e.sum(axis=1, keepdims=True)), 1e-6)


def dsp_matmul(module: Any, device: Any, *, m: int = 50, n: int = 60, k: int = 70) -> Result:
    """Sizes that are no multiples of the tile."""
    rng = np.random.default_rng(2)
    left, right = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    a, b, c = device.from_numpy(left), device.from_numpy(right), device.empty((m, n), "float32")
    module["matmul_tiled"](a=a, b=b, c=c, m=m, n=n, k=k)
    return Result(_largest(c.numpy(), left.astype(np.float64) @ right), 1e-4)


def dsp_sum(module: Any, device: Any) -> Result:
    """A function that returns its result."""
    values = np.random.default_rng(3).uniform(0, 1, 100_000).astype(np.float32)
    total = module["sum"](x=device.from_numpy(values), n=values.size)
    reference = values.sum(dtype=np.float64)
    return Result(abs(total - reference) / reference, 1e-6)


def dsp_brighten(module: Any, device: Any) -> Result:
    """A length that is not a multiple of the 128 bytes of a vector."""
    picture = np.random.default_rng(4).integers(0, 256, 10_000, "uint8")
    brighter = device.empty(picture.shape, "uint8")
    module["brighten"](
        picture=device.from_numpy(picture), brighter=brighter, amount=60, size=picture.size
    )
    return Result(_largest(brighter.numpy(), np.minimum(picture.astype(int) + 60, 255)), 0)


#: The cases of Hexagon, whose functions are calls without a grid.
DSP_CASES: dict[str, Callable[..., Result]] = {
    "softmax": dsp_softmax,
    "tiled matmul": dsp_matmul,
    "sum": dsp_sum,
    "brighten (HVX)": dsp_brighten,
}


def _largest(result: np.ndarray, reference: np.ndarray) -> float:
    return float(np.abs(np.asarray(result, np.float64) - reference).max())


def _text(value: object) -> str:
    if isinstance(value, (devmod.Array, devmod.Image, devmod.Sampler)):
        return "…"
    return f"{value:g}" if isinstance(value, float) else repr(value)


def coloured(escape: np.ndarray) -> np.ndarray:
    """Return a picture of escape times: a cycle of colours over their square root, the set itself
    black.
    """
    phase = np.sqrt(escape)[..., None] * 0.9 + np.array([3.4, 2.6, 1.7])
    picture = (0.5 - 0.5 * np.cos(phase)) * np.array([255, 236, 250])
    picture[escape == 0] = 0
    return picture.astype(np.uint8)
