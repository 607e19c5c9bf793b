"""Compile the models of sasmodels that are in C for OpenCL into one file, and run each on a device
beside sasmodels' own way (pyopencl).

    pip install "devmod[opencl,pocl]" sasmodels pyopencl

Each result is compared with that of sasmodels' C library in float64. The models have float32 where
sasmodels declares that it suffices.

With the variable TARGET, such as "rocm -arch=gfx1100", each model is compiled for it too. The
result at 8 values of q is compared with that of OpenCL; integrals have 4 points, for an emulator.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sasmodels import generate
from sasmodels.core import build_model, list_models, load_model_info
from sasmodels.direct_model import call_kernel
from sasmodels.kernel import Kernel

import devmod

Q = np.logspace(-3, -0.5, 200)  # blocks of 8


class DevmodKernel(Kernel):
    """A model's function of one dimension, as sasmodels calls it, launched by devmod."""

    dim = "1d"

    def __init__(self, info: Any, function: devmod.Function, dtype: str) -> None:
        self.info, self.function, self.dtype = info, function, np.dtype(dtype)
        self.q_input = type("Input", (), {"nq": Q.size, "q": Q.astype(dtype)})
        self.result = np.zeros(Q.size * (1 + info.have_Fq) + 4, dtype)

    def _call_kernel(
        self, details: Any, values: np.ndarray, cutoff: float, magnetic: bool, mode: int
    ) -> None:
        problem = details.buffer.view(self.function.info.interface.params[3].dtype)
        arguments = (
            Q.size,
            0,
            details.num_eval,
            problem,
            values,
            self.q_input.q,
            self.result,
            cutoff,
            mode,
        )
        self.function(*arguments, threads=Q.size, block=8)


def precision(info: Any) -> str:
    """Return the type that sasmodels computes a model in."""
    return "float32" if info.single else "float64"


def compile_models(names: list[str]) -> Path:
    """Compile each model for OpenCL, and return the file of all."""
    modules = []
    for info in map(load_model_info, names):
        source = generate.convert_type(
            generate.make_source(info)["opencl"], np.dtype(precision(info))
        )
        modules.append(devmod.compile(source, "opencl"))
    path = Path("sasmodels.devmod")
    devmod.save(devmod.bundle(*modules), path)
    return path


def compare(names: list[str], target: str) -> None:
    """Print the largest difference of each model between a target and OpenCL."""
    global Q
    Q = np.logspace(-3, -0.5, 8)
    for name, info in zip(names, map(load_model_info, names), strict=True):
        dtype = precision(info)
        generate.set_integration_size(info, 4)
        source = generate.convert_type(generate.make_source(info)["opencl"], np.dtype(dtype))
        results = []
        for each in (target, "opencl"):
            module = devmod.compile(source, each, language="OpenCL C")
            results.append(call_kernel(DevmodKernel(info, module[f"{name}_Iq"], dtype), {}))
        print(f"{name:30} {dtype:8} {worst_error(*results):.1e}", flush=True)


def worst_error(result: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest relative error."""
    return float(np.max(np.abs(result - exact) / np.abs(exact)))


def main() -> None:
    """Compile, run, and print the errors of each model."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("SAS_OPENCL", "opencl")
    names = list_models("c")
    if target := os.environ.get("TARGET"):
        compare(names, target)
        return
    start = time.perf_counter()
    path = compile_models(names)
    found = devmod.load(path)
    print(
        f"{len(names)} models, {len(found.functions)} functions, {path.stat().st_size / 1e6:.1f} MB, {time.perf_counter() - start:.0f} s"
    )
    print(f"{'model':30} {'type':8} devmod   pyopencl: the largest relative error")
    for name, info in zip(names, map(load_model_info, names), strict=True):
        dtype = precision(info)
        exact = call_kernel(build_model(info, dtype="double", platform="dll").make_kernel([Q]), {})
        theirs = call_kernel(
            build_model(info, dtype=dtype, platform="ocl").make_kernel([Q.astype(dtype)]), {}
        )
        ours = call_kernel(DevmodKernel(info, found[f"{name}_Iq"], dtype), {})
        print(
            f"{name:30} {dtype:8} {worst_error(ours, exact):.1e}  {worst_error(theirs, exact):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
