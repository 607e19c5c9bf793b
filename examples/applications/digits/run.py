"""Read the pictures of the test on each device of the machine, and print how many digits are right.
It needs NumPy alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import devmod

FOLDER = Path(__file__).parent


def main(kinds: list[str]) -> None:
    classify = devmod.load(FOLDER / "digits.devmod")["classify"]
    test = np.load(FOLDER / "test.npz")
    pictures, labels = test["pictures"], test["labels"]
    for row in pictures[0][::2]:
        print("  " + "".join(" .:-=+*#%@"[value * 9 // 16] * 2 for value in row))
    for device in classify.devices():
        if kinds and device.kind not in kinds:
            continue
        digits, scores = classify.on(device)(pictures)
        right = int((digits == labels).sum())
        first = f"the first picture is a {digits[0]} ({scores[0].max():.0%})"
        print(f"  {device.kind}:{device.index}  {first}; {right} of {len(labels)} are right")
        if right < 0.95 * len(labels):
            raise SystemExit(f"{device}: expected 95 % of the digits to be right")


if __name__ == "__main__":
    main(sys.argv[1:])
