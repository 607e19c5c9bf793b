"""Run the programs on each device of this machine, and compare each step with NumPy.

devmod build
python run.py [KIND ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import devmod
from pictures import TOLERANCES, check, make_picture


def main(kinds: list[str]) -> None:
    """Print a line for each device."""
    kernels = devmod.load(Path(__file__).with_name("pictures.devmod"))
    for device in devmod.devices():
        if kinds and device.kind not in kinds:
            continue
        try:
            differences = check(kernels, device, make_picture(), 203, 97)
        except (devmod.ArgumentError, devmod.DeviceNotFoundError):
            # The file has no kernels for it, or none that fits.
            continue
        wrong = [name for name, difference in differences.items() if difference > TOLERANCES[name]]
        text = ", ".join(f"{name} {difference:.2g}" for name, difference in differences.items())
        print(f"{device.kind:7} {'wrong: ' + ' '.join(wrong) if wrong else 'right'}  ({text})")


if __name__ == "__main__":
    main(sys.argv[1:])
