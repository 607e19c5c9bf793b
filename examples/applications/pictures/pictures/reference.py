"""The programs of devmod.toml in NumPy, and the comparison of a device's results.

Each step takes the device's own result of the step before, so that rounding does not add up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import devmod

Picture = np.ndarray[Any, np.dtype[np.uint8]]
RADIUS, SPACE, RANGE = 3, 2.0, 0.15  # the defaults in devmod.toml

#: The largest difference of each step from NumPy. A level of 255 where a result lies between two,
#: and another because samplers have weights of 8 bits. A texel whose luminance lies between two
#: levels may count as either.
TOLERANCES = {"resize": 1.6, "bilateral": 1.0, "histogram": 8.0, "mapping": 1e-5, "equalize": 1.6}


def make_picture(width: int = 160, height: int = 120) -> Picture:
    """Return a dark picture with hills of color and some noise."""
    y, x = np.mgrid[0:height, 0:width] / 40
    colors = np.stack(
        [np.sin(x + 2 * y), np.cos(2 * x - y), np.sin(x * y / 2), np.ones_like(x)], -1
    )
    noise = np.random.default_rng(0).normal(0, 0.03, colors.shape)
    picture = np.clip((colors * 0.5 + 0.5) * 0.5 + noise, 0, 1) * 255
    picture[..., 3] = 255
    return picture.astype(np.uint8)


def resize(picture: Picture, width: int, height: int) -> np.ndarray[Any, Any]:
    """Return a picture of another size, from 0 to 1, with linear interpolation."""
    levels = picture / 255
    for axis, (old, new) in enumerate(((picture.shape[0], height), (picture.shape[1], width))):
        place = (np.arange(new) + 0.5) / new * old - 0.5
        left = np.floor(place).astype(int)
        weight = (place - left).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        first, second = (
            np.take(levels, np.clip(each, 0, old - 1), axis) for each in (left, left + 1)
        )
        levels = first * (1 - weight) + second * weight
    return np.asarray(levels)


def bilateral(picture: Picture) -> np.ndarray[Any, Any]:
    """Return the picture smoothed, from 0 to 1."""
    levels = picture / 255
    height, width = picture.shape[:2]
    total, weights = np.zeros_like(levels), np.zeros((height, width, 1))
    for dy in range(-RADIUS, RADIUS + 1):
        for dx in range(-RADIUS, RADIUS + 1):
            rows, columns = (
                np.clip(np.arange(height) + dy, 0, height - 1),
                np.clip(np.arange(width) + dx, 0, width - 1),
            )
            color = levels[rows][:, columns]
            difference = ((color - levels)[..., :3] ** 2).sum(-1, keepdims=True)
            weight = np.exp(-(dx * dx + dy * dy) / (2 * SPACE**2) - difference / (2 * RANGE**2))
            total += weight * color
            weights += weight
    return np.asarray(total / weights)


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
    return np.concatenate(
        [np.minimum(picture[..., :3] / 255 * factor[..., None], 1), picture[..., 3:] / 255], -1
    )


def check(
    kernels: devmod.Module, device: devmod.Device, picture: Picture, width: int, height: int
) -> dict[str, float]:
    """Run the programs, and compare each step with NumPy.

    Return the largest differences: levels of 255 for pictures, texels for the histogram, parts for
    the table.
    """
    counts = np.zeros(256, np.uint32)
    resized, smooth, table, result = kernels["stages"].on(device)(
        picture, width, height, counts=counts
    )
    assert (kernels["enhance"].on(device)(picture, width, height) == result).all()
    pairs = {
        "resize": (resized, resize(picture, width, height) * 255),
        "bilateral": (smooth, bilateral(resized) * 255),
        "histogram": (counts, histogram(smooth)),
        "mapping": (table, np.cumsum(counts) / counts.sum()),
        "equalize": (result, equalize(smooth, table) * 255),
    }
    return {
        name: float(np.abs(found - expected).max()) for name, (found, expected) in pairs.items()
    }
