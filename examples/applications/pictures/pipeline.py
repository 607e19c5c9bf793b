"""Make a picture of another size, smooth it, and spread its levels of luminance, on a device of any kind; and the same in NumPy.

The kernels have the same names and parameters for each kind, so this code is the same for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import devmod

Picture = np.ndarray[Any, np.dtype[np.uint8]]
RADIUS, SPACE, RANGE = 3, 2.0, 0.15


class Pipeline:
    """The kernels of a file on one device.

    Parameters
    ----------
    kernels
        The module of pictures.devmod.
    device
        The device.
    """

    def __init__(self, kernels: devmod.Module, device: devmod.Device) -> None:
        self.device = device
        names = ("resize", "bilateral", "histogram", "mapping", "equalize")
        self.resize, self.bilateral, self.histogram, self.mapping, self.equalize = (kernels[name].on(device) for name in names)
        self.linear = device.sampler(filter="linear", address="clamp")
        self.nearest = device.sampler(filter="nearest", address="clamp")

    def run(self, picture: Picture, width: int, height: int) -> dict[str, np.ndarray[Any, Any]]:
        """Return the result of each step for a picture of height × width × 4."""
        device = self.device
        size = {"width": width, "height": height}
        threads = {"threads": (width, height), "block": (16, 16)}
        source = device.image_from_numpy(picture)
        resized, smooth, result = (device.image((width, height), "rgba8unorm") for _ in range(3))
        counts, table = device.zeros(256, "uint32"), device.empty(256, "float32")
        self.resize(source=source, source_sampler=self.linear, result=resized, **size, **threads)
        self.bilateral(
            source=resized, source_sampler=self.nearest, result=smooth, radius=RADIUS, space=SPACE, range=RANGE, **size, **threads
        )
        self.histogram(source=smooth, source_sampler=self.nearest, counts=counts, **size, **threads)
        self.mapping(counts=counts, table=table, texels=width * height, grid=1, block=256)
        self.equalize(source=smooth, source_sampler=self.nearest, result=result, table=table, **size, **threads)
        return {
            "resize": resized.numpy(),
            "bilateral": smooth.numpy(),
            "histogram": counts.numpy(),
            "mapping": table.numpy(),
            "equalize": result.numpy(),
        }


# -- The same in NumPy. Each step takes the device's own result of the step before, so that rounding does not add up.


def resize(picture: Picture, width: int, height: int) -> np.ndarray[Any, Any]:
    """Return a picture of another size, from 0 to 1, with linear interpolation."""
    levels = picture / 255
    for axis, (old, new) in enumerate(((picture.shape[0], height), (picture.shape[1], width))):
        place = (np.arange(new) + 0.5) / new * old - 0.5
        left = np.floor(place).astype(int)
        weight = (place - left).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        first, second = (np.take(levels, np.clip(each, 0, old - 1), axis) for each in (left, left + 1))
        levels = first * (1 - weight) + second * weight
    return levels


def bilateral(picture: Picture) -> np.ndarray[Any, Any]:
    """Return the picture smoothed, from 0 to 1."""
    levels = picture / 255
    height, width = picture.shape[:2]
    total, weights = np.zeros_like(levels), np.zeros((height, width, 1))
    for dy in range(-RADIUS, RADIUS + 1):
        for dx in range(-RADIUS, RADIUS + 1):
            rows, columns = np.clip(np.arange(height) + dy, 0, height - 1), np.clip(np.arange(width) + dx, 0, width - 1)
            color = levels[rows][:, columns]
            difference = ((color - levels)[..., :3] ** 2).sum(-1, keepdims=True)
            weight = np.exp(-(dx * dx + dy * dy) / (2 * SPACE**2) - difference / (2 * RANGE**2))
            total += weight * color
            weights += weight
    return total / weights


def luminance(picture: Picture) -> np.ndarray[Any, Any]:
    """Return the luminance of each texel, from 0 to 1."""
    return np.asarray(picture[..., :3] / 255 @ np.array([0.2126, 0.7152, 0.0722]))


def histogram(picture: Picture) -> np.ndarray[Any, Any]:
    """Return the number of texels of each level."""
    return np.bincount((luminance(picture) * 255 + 0.5).astype(int).ravel(), minlength=256)


def equalize(picture: Picture, table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the picture with the luminance of the table, from 0 to 1."""
    light = luminance(picture)
    factor = table[(light * 255 + 0.5).astype(int)] / np.maximum(light, 1 / 255)
    return np.concatenate([np.minimum(picture[..., :3] / 255 * factor[..., None], 1), picture[..., 3:] / 255], -1)


def check(picture: Picture, width: int, height: int, results: dict[str, np.ndarray[Any, Any]]) -> dict[str, float]:
    """Return the largest difference of each step from NumPy: levels of 255 for pictures, texels for the histogram, parts for the table."""
    counts = results["histogram"]
    expected = {
        "resize": resize(picture, width, height) * 255,
        "bilateral": bilateral(results["resize"]) * 255,
        "histogram": histogram(results["bilateral"]),
        "mapping": np.cumsum(counts) / counts.sum(),
        "equalize": equalize(results["bilateral"], results["mapping"]) * 255,
    }
    return {name: float(np.abs(results[name] - each).max()) for name, each in expected.items()}
