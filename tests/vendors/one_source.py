"""The kernels of examples/one_source/, and those in OpenCL C: compiled for a target, run by the
demo's calls, compared with NumPy.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import devmod

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))

from build import compile_one_source  # noqa: E402
from cases import ONE_SOURCE_CASES, SMALL_ONE_SOURCE_CASES  # noqa: E402

OPENCL_C = ["softmax", "tiled matmul", "Gaussian blur", "Mandelbrot", "sum"]
SLANG = [*OPENCL_C, "fitted Gaussian"]
#: The cases without barriers.
PLAIN = ["Gaussian blur", "Mandelbrot", "fitted Gaussian"]


def check_one_source(device: Any, language: str, target: str, names: list[str]) -> None:
    """Compile the sources of a language for a target, and run them all. `names` are the cases that
    are expected to run.
    """
    made = [module for _, module in compile_one_source(REPOSITORY, language, target)]
    module = devmod.loads(devmod.dumps(devmod.bundle(*made)))
    found = {function for each in made for function in each.functions}
    runnable = [
        name for name, (_, functions) in ONE_SOURCE_CASES.items() if found.issuperset(functions)
    ]
    assert sorted(runnable) == sorted(names)
    for name in runnable:
        result = SMALL_ONE_SOURCE_CASES[name](module, device, REPOSITORY)
        assert result.error <= result.tolerance, f"{name}: {result.error:g}"
