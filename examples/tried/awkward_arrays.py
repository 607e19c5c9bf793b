"""Compile the CUDA kernels of awkward-array, as its package has them, for cuda and rocm: `pip
install awkward`.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy

import devmod

sys.modules["cupy"] = (
    numpy  # the list of kernels names types of CuPy, which needs a GPU; NumPy's have the same names
)
from awkward._connect import cuda  # noqa: E402
from awkward._connect.cuda import _kernel_signatures  # noqa: E402

FOLDER = Path(cuda.__file__).parent / "cuda_kernels"


def main() -> None:
    """Compile, and print how many instances of templates each kind has."""
    source = f"#define ERROR_BITS {cuda.ERROR_BITS}\n#define NO_ERROR {cuda.NO_ERROR}\n"
    files = [FOLDER / "cuda_common.cu", *sorted(FOLDER.glob("awkward_*.cu"))]
    source += "\n".join(path.read_text() for path in files)
    names = cuda.fetch_template_specializations(_kernel_signatures.by_signature(None))
    warnings.simplefilter("ignore")
    for target in ("cuda -arch=compute_80", "rocm -arch=gfx1100"):
        start = time.perf_counter()
        module = devmod.compile(
            source, target, language="CUDA C++", name_expressions=names, options=["-std=c++17"]
        )
        seconds = time.perf_counter() - start
        print(
            f"{target}: {len(module.functions)} of {len(names)} instances of {len(files)} files, {seconds:.1f} s"
        )


if __name__ == "__main__":
    main()
