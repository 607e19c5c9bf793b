"""Build the kernels, make random weights, and write both with the program of a step to
transformer.devmod.

python build_model.py [TARGET ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import devmod
from transformer import Config, add_model, random_weights

HERE = Path(__file__).parent


def main(targets: list[str], folder: Path = HERE) -> None:
    """Write the file, for the targets of the manifest or for some of them."""
    result = devmod.build(HERE, targets=targets, output=folder / "kernels.devmod")
    result.raise_for_failures()
    config = Config()
    devmod.save(
        add_model(devmod.load(result.output), config, random_weights(config)),
        folder / "transformer.devmod",
    )


if __name__ == "__main__":
    main(sys.argv[1:])
