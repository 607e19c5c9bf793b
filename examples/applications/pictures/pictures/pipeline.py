"""Make a picture of another size, smooth it, and spread its levels of luminance, on a device of any kind.

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
        size: dict[str, Any] = {"width": width, "height": height}
        threads: dict[str, Any] = {"threads": (width, height), "block": (16, 16)}
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
