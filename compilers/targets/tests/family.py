"""The kernels of compilers/targets/tests/kernels/family: one source for CUDA and HIP, with the
calls and the references of its tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import devmod

FOLDER = Path(__file__).parent / "kernels/family"
#: The examples for CUDA that are examples for ROCm too, each with its case of the demo.
EXAMPLES = {
    "gaussian_blur": "Gaussian blur",
    "mandelbrot": "Mandelbrot",
    "matmul": "tiled matmul",
    "reduction": "sum",
    "softmax": "softmax",
}


def compiled(name: str, *targets: str) -> devmod.Module:
    """Return the module of a source for some targets."""
    modules = [
        devmod.compile(FOLDER / name, target, name_expressions=["scale<float>"])
        for target in targets
    ]
    return devmod.bundle(*modules)


def check(module: devmod.Module, device: Any) -> None:
    """Call each kernel of a source on a device and compare the results with those of NumPy."""
    rng = np.random.default_rng(5)
    n = 192
    x = rng.random(256, np.float32)
    sums, lanes, votes = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.uint32)
    module["warps"].on(device)(x[:n], sums, votes, lanes, n, grid=2, block=128, shared_memory=512)
    x[n:] = 0
    reversed_warps = x.reshape(2, 128)[:, ::-1].reshape(8, 32)
    assert np.allclose(sums, np.repeat(reversed_warps.sum(axis=1), 32)[:n], rtol=1e-5)
    bits = ((reversed_warps > 0.5) << np.arange(32, dtype=np.uint64)).sum(axis=1)
    assert votes.tolist() == np.repeat(bits, 32)[:n].tolist()
    assert lanes.tolist() == [(i % 32) ^ 1 for i in range(n)]
    halves, wide = np.arange(40, dtype=np.float16), np.zeros(40, np.float32)
    module["widen"].on(device)(x=halves, y=wide, n=40, threads=40, block=32)
    assert wide.tolist() == [2 * i for i in range(40)]
    module["scale<float>"].on(device)(wide, 0.5, 40, threads=40, block=32)
    assert wide.tolist() == list(range(40))
