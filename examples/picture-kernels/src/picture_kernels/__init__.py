"""Kernels for pictures, on each device for which a runtime of devmod is installed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import devmod


@cache
def kernels() -> devmod.Module:
    """Return the kernels of this package."""
    return devmod.installed("picture_kernels")


def gray(picture: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the brightness of each pixel, 0 to 1, with the weights of ITU-R BT.709.

    Parameters
    ----------
    picture
        Shape (height, width, 4), uint8: red, green, blue, and alpha, which is ignored.

    Returns
    -------
    numpy.ndarray
        Shape (height, width), float32.

    Raises
    ------
    ValueError
        The picture has another shape or type.
    devmod.NotRegisteredError
        No runtime for the kernels is installed. The message has the commands that install one.
    """
    if picture.ndim != 3 or picture.shape[2] != 4 or picture.dtype != np.uint8:
        raise ValueError(
            f"expected a picture of shape (height, width, 4) and uint8, got {picture.shape} and {picture.dtype}"
        )
    pixels = np.ascontiguousarray(picture).view("<u4")[..., 0]
    brightness = np.empty(pixels.shape, np.float32)
    if pixels.size:
        kernels()["gray"](
            picture=pixels, brightness=brightness, pixels=pixels.size, grid=-(-pixels.size // 64)
        )
    return brightness
