"""Compile OpenCL C of pyFAI and silx for OpenCL and for Vulkan, and compare the results.

    pip install "devmod[opencl,vulkan,pocl]" libclang pyclspv pyFAI==2026.9.0 silx==3.1.0
    python pyfai_silx_kernels.py [PROGRAM]...

With TARGET="cuda -arch=compute_80" in the environment, the second kind is CUDA. The simulated GPU
runs it: pip install devmod-cuda devmod-simulators ziglang, and devmod simulate -- python ….

PROGRAMS has the files that the projects join, and their macros. `devmod.verify` chooses the inputs
of most kernels. CALLS has the arguments of the others: sizes that fit each other, indices that
rise, and local memory. These are launched once.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import devmod
from devmod import Local

#: The files of each program, those of silx with its name, and its macros.
PROGRAMS: dict[str, tuple[str, dict[str, str | int]]] = {
    "azim_CSR": (
        "silx/doubleword preprocess memset ocl_azim_CSR collective/reduction collective/scan collective/comb_sort medfilt",
        {"NBINS": 20, "NIMAGE": 1000},
    ),
    "azim_LUT": (
        "silx/doubleword preprocess memset ocl_azim_LUT",
        {"NBINS": 100, "NIMAGE": 1000, "NLUT": 8, "ON_CPU": 0},
    ),
    "separate": ("silx/doubleword bitonic separate sigma_clip", {}),
    "simple_peak_picker": ("simple_peak_picker", {}),
    "backproj": ("silx/backproj silx/array_utils", {}),
    "backproj_helper": ("silx/backproj_helper", {}),
    "convolution": ("silx/convolution", {"USED_CONV_MODE": 1}),
    "image": ("silx/image/cast silx/image/map silx/image/max_min silx/image/histogram", {}),
    "linalg": ("silx/linalg", {}),
    "medfilt": ("silx/preprocess silx/bitonic silx/medfilt", {"NIMAGE": 1000}),
    "sparse": ("silx/sparse", {"IMAGE_WIDTH": 32, "DTYPE": "float", "IDX_DTYPE": "int"}),
}
generator = np.random.default_rng(82)

_ROWS = {"threads": (16, 32), "block": (1, 32)}
_LINES = {"threads": (32, 16), "block": (32, 1)}

_TILE = {"grid": (1, 1), "block": (16, 16)}
_CSR_GRID = {"grid": 20, "block": 32}


def floats(*shape: int) -> np.ndarray[Any, Any]:
    """Return random floats from 0 to 1."""
    return generator.random(shape, np.float32)


def rising(count: int, step: int) -> np.ndarray[Any, Any]:
    """Return the first element of each row of a sparse matrix, and the number of all."""
    return np.arange(0, (count + 1) * step, step, dtype=np.int32)


def _csr(pixels: str, width: int) -> dict[str, Any]:
    """Return a sparse matrix of 20 bins, its vector, and memory for the results."""
    return {
        pixels: floats(1000, width) if width > 1 else floats(1000),
        "coefs": floats(400),
        "indices": generator.permutation(1000)[:400].astype(np.int32),
        "indptr": rising(20, 20),
        "nbins": 20,
        "error_model": 1,
        "empty": 0.0,
        "summed": np.zeros((20, 8), np.float32),
        "averint": np.zeros(20, np.float32),
        "stdevpix": np.zeros(20, np.float32),
        "stderrmean": np.zeros(20, np.float32),
    }


_CONVOLUTION = {"input": floats(192), "output": floats(192), "filter": floats(25)}
_SORT = {"g_data": floats(16 * 256), "l_data": Local(per_thread=32)}
_COLUMNS = {"src": floats(16 * 256), "mean": floats(16), "std": floats(16), "dummy": -1.0}
_COLUMNS |= {"l_data": Local(per_thread=20)}
_SIGMA = {**_COLUMNS, "sigma_lo": 3.0, "sigma_hi": 3.0, "max_iter": 3}
_BACKPROJ = {
    "num_proj": 20,
    "num_bins": 32,
    "axis_position": 16.0,
    "d_SLICE": floats(32 * 32),
    "gpu_offset_x": 0.0,
    "gpu_offset_y": 0.0,
    "d_cos_s": np.cos(np.arange(20, dtype=np.float32) * np.float32(np.pi / 20)),
    "d_sin_s": np.sin(np.arange(20, dtype=np.float32) * np.float32(np.pi / 20)),
    "d_axis_s": np.full(20, 16, np.float32),
    "shared2": Local(768),
}
#: For each kernel: its arguments, and the keywords of its launch.
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bsort_all": (
        {"g_data": floats(64, 4), "l_data": Local(per_thread=32)},
        {"grid": 1, "block": 32},
    ),
    "bsort_book": (
        {"g_data": floats(64, 4), "l_data": Local(per_thread=32)},
        {"grid": 1, "block": 32},
    ),
    "bsort_file": (
        {"g_data": floats(64, 4), "l_data": Local(per_thread=32)},
        {"grid": 1, "block": 32},
    ),
    "bsort_horizontal": (_SORT, _ROWS),
    "bsort_vertical": (_SORT, _LINES),
    "mean_std_horizontal": (_COLUMNS, _ROWS),
    "mean_std_vertical": (_COLUMNS, _LINES),
    "sigma_clip_horizontal": (_SIGMA, _ROWS),
    "sigma_clip_vertical": (_SIGMA, _LINES),
    "csr_integrate": (
        {
            "weights": floats(1000),
            "coefs": floats(400),
            "indices": generator.permutation(1000)[:400].astype(np.int32),
            "indptr": rising(20, 20),
            "nbins": 20,
            "do_dummy": 0,
            "dummy": 0.0,
            "coef_power": 1,
            "sum_data": floats(20),
            "sum_count": floats(20),
            "merged": floats(20),
            "shared": Local(per_thread=16),
        },
        _CSR_GRID,
    ),
    "csr_integrate4": ({**_csr("weights", 4), "shared": Local(per_thread=32)}, _CSR_GRID),
    "csr_integrate4_single": (
        {**_csr("weights", 4), "shared": Local(per_thread=32)},
        {"grid": 20, "block": 1},
    ),
    "csr_sigma_clip4": (
        {**_csr("data4", 4), "cutoff": 3.0, "cycle": 3, "shared8": Local(per_thread=32)},
        _CSR_GRID,
    ),
    "csr_medfilt": (
        {
            **_csr("data4", 4),
            "work4": floats(400, 4),
            "quant_min": 0.4,
            "quant_max": 0.6,
            "shared_int": Local(per_thread=4),
            "shared_float": Local(per_thread=64),
        },
        {"grid": (1, 20), "block": (32, 1)},
    ),
    "simple_spot_finder": (
        {
            "img": floats(32 * 32),
            "height": 32,
            "width": 32,
            "half_wind_height": 3,
            "half_wind_width": 3,
            "cutoff": 1.5,
            "radius": 2.0,
            "noise": 0.1,
            "cnt_high": np.zeros(1, np.int32),
            "high": np.zeros(1024, np.int32),
            "high_size": 1024,
            "local_high": Local(1024),
            "local_size": 256,
        },
        {"threads": (32, 32), "block": (8, 8)},
    ),
    # Mesa's CPU device filters images of bytes in 8 bits. Those of silx are floats.
    "backproj_kernel": (_BACKPROJ | {"d_sino": floats(20, 32)}, _TILE),
    "backproj_cpu_kernel": (_BACKPROJ | {"d_sino": floats(20 * 32)}, _TILE),
    # The filter of a plane is square: silx takes its rows from its columns.
    "convol_2D_XY": (
        {**_CONVOLUTION, "Lx": 5, "Ly": 5, "Nx": 16, "Ny": 12, "Nz": 1},
        {"threads": (16, 12, 1)},
    ),
    "convol_2D_XZ": (
        {**_CONVOLUTION, "Lx": 5, "Lz": 5, "Nx": 16, "Ny": 1, "Nz": 12},
        {"threads": (16, 1, 12)},
    ),
    "convol_2D_YZ": (
        {**_CONVOLUTION, "Ly": 5, "Lz": 5, "Nx": 1, "Ny": 16, "Nz": 12},
        {"threads": (1, 16, 12)},
    ),
    "convol_3D_XYZ": (
        {
            "input": floats(192),
            "output": floats(192),
            "filter": floats(27),
            "Lx": 3,
            "Ly": 3,
            "Lz": 3,
            "Nx": 8,
            "Ny": 6,
            "Nz": 4,
        },
        {"threads": (8, 6, 4)},
    ),
    "max_min_reduction_stage1": (
        {"data": floats(500), "out": floats(4, 2), "size": 500, "l_data": Local(per_thread=8)},
        {"grid": 4, "block": 32},
    ),
    "max_min_reduction_stage2": (
        {"data2": floats(32, 2), "maxmin": floats(1, 2), "l_data": Local(per_thread=8)},
        {"grid": 1, "block": 32},
    ),
    "histogram": (
        {
            "data": floats(500),
            "data_size": 500,
            "mini": 0.0,
            "maxi": 1.0,
            "map_operation": 0,
            "hist": np.zeros(16, np.int32),
            "edges": floats(17),
            "hist_size": 16,
            "tmp_hist": np.zeros(64, np.int32),
            "processed": np.zeros(1, np.int32),
            "local_hist": Local(64),
        },
        {"grid": 1, "block": 32},
    ),
    "medfilt2d": (
        {
            "image": floats(20 * 24),
            "result": floats(20 * 24),
            "l_data": Local(per_thread=32),
            "khs1": 2,
            "khs2": 2,
            "height": 20,
            "width": 24,
        },
        {"threads": (32, 24), "block": (32, 1)},
    ),
    "densify_csr": (
        {
            "data": floats(160),
            "ind": np.tile(np.arange(0, 32, 4, dtype=np.int32), 20),
            "iptr": rising(20, 8),
            "output": floats(20 * 32),
            "image_height": 20,
        },
        {"threads": (32, 20), "block": (32, 1)},
    ),
}


def source_of(files: str) -> str:
    """Return the files of a program as one text."""
    texts = []
    for name in files.split():
        package, folder = "pyFAI", "openCL"
        if name.startswith("silx/"):
            package, folder = "silx", "opencl"
            name = name.removeprefix("silx/")
        found = find_spec(package)
        assert found is not None
        assert found.origin is not None
        path = Path(found.origin).parent / "resources" / folder / f"{name}.cl"
        # The projects remove the include too.
        texts.append(re.sub(r'#include "for_eclipse.h"', "", path.read_text()))
    return "\n".join(texts)


def compare(module: devmod.Module, name: str) -> None:
    """Print what each candidate of a kernel gives."""
    arguments, launch = CALLS.get(name, ({}, {}))
    interface = module.functions[name].interface
    assert interface is not None
    given = {}
    for param in interface.params:
        if param.name in arguments:
            given[param.name] = arguments[param.name]
    # Drivers take long to build kernels with many barriers.
    print(devmod.verify(module, name, given, **launch, timeout=300), flush=True)


def main() -> None:
    """Compile, and compare the kernels of the programs that are named, or of all."""
    warnings.simplefilter("ignore")
    for program in sys.argv[1:] or PROGRAMS:
        files, macros = PROGRAMS[program]
        source = source_of(files)
        modules = []
        for target in ("opencl", os.environ.get("TARGET", "vulkan")):
            modules.append(devmod.compile(source, target, language="OpenCL C", defines=macros))
        bundle = devmod.bundle(*modules)
        print(f"{program}: {len(bundle.functions)} kernels")
        for name in bundle.functions:
            compare(bundle, name)


if __name__ == "__main__":
    main()
