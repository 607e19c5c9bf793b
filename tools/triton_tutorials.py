"""Run one of Triton's tutorials with small sizes, for tools/triton_packages.py:

    python tools/triton_observed.py tools/triton_tutorials.py TUTORIAL

Of one that launches nothing when it is imported, functions are called.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton._C.libtriton import nvidia

import peers_torch

#: A side of the matrices.
SIDE = 256


def attention(names: dict[str, Any]) -> None:
    """Test the fused attention, forward and backward, with one head of 128 tokens."""
    for causal in (False, True):
        names["test_op"](1, 1, 128, 64, causal, False, "bwd", "triton-fp16")


def persistent(names: dict[str, Any]) -> None:
    """Compare the products of matrices, and compute one of FP8."""
    for kind in (torch.float16, torch.float8_e4m3fn):
        names["validate"](SIDE, SIDE, SIDE, kind)


def block_scaled(names: dict[str, Any]) -> None:
    """Compute a product of matrices for formats with scales of blocks. It fails with its others,
    which cuBLAS does not have.
    """
    validate = names["validate_block_scaled"]
    validate.__globals__["cublas"] = None
    for kind in ("nvfp4", "mxfp8"):
        validate(SIDE, SIDE, SIDE, kind)


def dependent_launch(names: dict[str, Any]) -> None:
    """Add vectors with and without programmatic dependent launches."""
    names["validate"](1024)
    x, y = torch.rand(3000), torch.rand(3000)
    names["add"](x, y, launch_pdl=False)


def grouped(path: Path) -> None:
    """Run the products of groups of matrices, whose addresses are in tensors, with a smaller copy.
    Triton reads the sources of functions in their file.
    """
    copy = Path(path.name).absolute()
    text = path.read_text(encoding="utf-8")
    copy.write_text(text.replace("[1024, 512, 256, 128]", "[256, 128, 128, 128]"), encoding="utf-8")
    in_launch: Callable[[torch.Tensor], int] = torch.Tensor.data_ptr

    def data_ptr(tensor: torch.Tensor) -> int:
        if sys._getframe(1).f_code.co_filename == str(copy):
            return peers_torch.copy_of(tensor, peers_torch.addressed)
        return in_launch(tensor)

    torch.Tensor.data_ptr = data_ptr
    runpy.run_path(str(copy), run_name=path.stem)


CALLS: dict[str, Callable[[dict[str, Any]], None]] = {
    "06": attention,
    "09": persistent,
    "10": block_scaled,
    "11": dependent_launch,
}


def main(path: Path) -> None:
    """Run a tutorial."""
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    number = properties["multiprocessor_count"]
    torch.cuda.get_device_properties = lambda _device: SimpleNamespace(multi_processor_count=number)
    # There is no library of NVIDIA's to compare with.
    nvidia.cublas.CublasLt = lambda _workspace: None
    if path.name.startswith("08"):
        grouped(path)
        return
    CALLS[path.name[:2]](runpy.run_path(str(path), run_name=path.stem))


main(Path(sys.argv[-1]))
