"""Compile the models of sasmodels that are in C for OpenCL, into one file: `pip install sasmodels`."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
from sasmodels import generate
from sasmodels.core import list_models, load_model_info

import devmod


def main() -> None:
    """Compile, and print how many models and functions the file has."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    modules = []
    names = list_models("c")
    for name in names:
        source = generate.convert_type(generate.make_source(load_model_info(name))["opencl"], np.dtype("float32"))
        modules.append(devmod.compile(source, "opencl"))
    path = Path("sasmodels.devmod")
    devmod.save(devmod.bundle(*modules), path)
    found = devmod.load(path).functions
    seconds = time.perf_counter() - start
    print(f"{len(modules)} of {len(names)} models, {len(found)} functions, {path.stat().st_size / 1e6:.1f} MB, {seconds:.0f} s")


if __name__ == "__main__":
    main()
