"""Draw lake.png, the picture that the demo blurs. It is drawn by this script alone, from no
photograph.

python examples/images/draw.py    (needs numpy and pillow; writes lake.png beside this file)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

WIDTH, HEIGHT, SHORE = 480, 320, 215


def ridge(rng: np.random.Generator, base: float, swing: float) -> np.ndarray:
    """The height of a mountain ridge for each column: waves of halving size at random phases."""
    x = np.arange(WIDTH) / WIDTH
    line = np.full(WIDTH, float(base))
    for octave in range(7):
        line += swing / 2**octave * np.abs(np.sin(2**octave * np.pi * x * 1.3 + rng.uniform(0, 7)))
    return line


def mix(low: tuple[int, ...], high: tuple[int, ...], share: np.ndarray) -> np.ndarray:
    """A colour between two, for each share from 0 to 1."""
    return np.asarray(low) + (np.asarray(high) - np.asarray(low)) * np.clip(share, 0, 1)[..., None]


def main() -> None:
    """Draw it."""
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    picture = mix((16, 20, 58), (255, 150, 96), (y / SHORE) ** 1.6)

    for column, row, light in zip(
        rng.integers(0, WIDTH, 240),
        rng.integers(0, 120, 240),
        rng.uniform(0.3, 1, 240),
        strict=True,
    ):
        picture[row, column] += 200 * light * (1 - row / 130)
    moon = np.hypot(x - 352, y - 62)
    picture += np.exp(-moon / 38)[..., None] * np.array([70, 66, 60])
    picture[moon < 24] = (250, 244, 222)
    for dx, dy, size in ((-8, -6, 5), (6, 4, 7), (-4, 9, 4), (9, -9, 3)):
        picture[np.hypot(x - 352 - dx, y - 62 - dy) < size] = (226, 216, 190)

    for base, swing, colour, snow in (
        (70, 42, (86, 70, 112), 118),
        (38, 40, (52, 46, 84), 999),
        (8, 26, (24, 26, 52), 999),
    ):
        line = ridge(rng, base, swing)
        above = SHORE - y
        picture[above < line] = colour
        caps = (above < line) & (above > line - 12 - 6 * np.sin(x / 3)) & (above > snow)
        picture[caps] = (236, 232, 244)

    for column in rng.integers(0, WIDTH, 90):  # firs along the shore
        tall = rng.uniform(14, 44)
        above = SHORE + 2 - y
        wide = (tall - above) / tall * 7 * (0.55 + 0.45 * ((above / 5) % 1 < 0.6))
        picture[(above > 0) & (above < tall) & (np.abs(x - column) < wide)] = (10, 14, 30)

    water = np.arange(SHORE, HEIGHT)
    for row in water:  # the lake mirrors what stands above it, with ripples that widen towards us
        depth = row - SHORE
        shift = np.round((1 + depth / 18) * np.sin(row * 1.7 + x[0] / (9 + depth / 4))).astype(int)
        mirror = np.clip(SHORE - 1 - depth * 1.6 + shift, 0, SHORE - 1).astype(int)
        picture[row] = picture[mirror, np.arange(WIDTH)] * 0.62 + np.array([6, 14, 34])
    picture[SHORE - 1 : SHORE + 1] *= 0.5

    path = Path(__file__).with_name("lake.png")
    few_colours = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).quantize(
        160, dither=Image.Dither.NONE
    )
    few_colours.convert("RGB").save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
