"""Run the pipeline on each device of this machine, and compare each step with NumPy.

    devmod build
    python run.py [KIND ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from pipeline import Pipeline, check

import devmod

#: The largest difference of each step: a level of 255 where a result lies between two, and more where the sampler of a device has weights
#: of 8 bits. A texel whose luminance lies between two levels may count as either.
TOLERANCES = {"resize": 2.0, "bilateral": 1.0, "histogram": 8.0, "mapping": 1e-5, "equalize": 8.0}


def make_picture(width: int = 160, height: int = 120) -> np.ndarray:
    """Return a dark picture with hills of color and some noise."""
    y, x = np.mgrid[0:height, 0:width] / 40
    colors = np.stack([np.sin(x + 2 * y), np.cos(2 * x - y), np.sin(x * y / 2), np.ones_like(x)], -1)
    noise = np.random.default_rng(0).normal(0, 0.03, colors.shape)
    picture = np.clip((colors * 0.5 + 0.5) * 0.5 + noise, 0, 1) * 255
    picture[..., 3] = 255
    return picture.astype(np.uint8)


def main(kinds: list[str]) -> None:
    """Print a line for each device."""
    kernels = devmod.load(Path(__file__).with_name("pictures.devmod"))
    own = {module.kind for module in kernels.imports or (kernels,)}
    picture, (width, height) = make_picture(), (203, 97)
    for device in devmod.devices():
        if device.kind in own and (not kinds or device.kind in kinds):
            results = Pipeline(kernels, device).run(picture, width, height)
            differences = check(picture, width, height, results)
            wrong = [name for name, difference in differences.items() if difference > TOLERANCES[name]]
            text = ", ".join(f"{name} {difference:.2g}" for name, difference in differences.items())
            print(f"{device.kind:7} {'wrong: ' + ' '.join(wrong) if wrong else 'right'}  ({text})")


if __name__ == "__main__":
    main(sys.argv[1:])
