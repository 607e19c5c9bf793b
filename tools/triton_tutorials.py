"""Run one of Triton's tutorials with small sizes, for tools/triton_packages.py:

    python tools/triton_observed.py tools/triton_tutorials.py TUTORIAL

Of one that launches nothing when it is imported, functions are called.
"""

from __future__ import annotations

import os
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

#: What a smaller copy of a tutorial has in place of a text. Autotune measures fewer configurations.
#: For tiles of 32 rows, and for two warps, Triton takes mma also on sm_90: the simulator has no
#: wgmma. Tensor descriptors stay.
REPLACED = {
    "06": {
        "for BM in [64, 128]": "for BM in [32]",
        "for BN in [32, 64, 128]": "for BN in [32]",
        "NUM_STAGES_OPTIONS = [2, 3, 4]": "NUM_STAGES_OPTIONS = [2, 3]",
        "NUM_WARPS, NUM_STAGES = 4, 5": "NUM_WARPS, NUM_STAGES = 2, 5",
    },
    "08": {
        "[1024, 512, 256, 128]": "[256, 128, 128, 128]",
        "'BLOCK_SIZE_M': 128,": "'BLOCK_SIZE_M': 32,",
        "'BLOCK_SIZE_M': 64,": "'BLOCK_SIZE_M': 16,",
        "for BM in [128]": "for BM in [32]",
        "for BN in [128, 256]": "for BN in [64, 128]",
        "for s in ([3, 4])": "for s in ([3])",
    },
    "09": {
        "for BM in [128]": "for BM in [32]",
        "for BN in [128, 256]": "for BN in [64, 128]",
        "for BK in [64, 128]": "for BK in [64]",
        "for s in ([2, 3, 4])": "for s in ([2])",
    },
    "10": {
        'configs["num_stages"],\n    )': 'configs["num_stages"],\n        num_warps=2,\n    )',
    },
    "11": {},
}


def attention(names: dict[str, Any]) -> None:
    """Test the fused attention, forward and backward, with one head of 128 tokens."""
    for causal in (False, True):
        names["test_op"](1, 1, 128, 64, causal, False, "bwd", "triton-fp16")


def persistent(names: dict[str, Any]) -> None:
    """Compare the products of matrices, and compute one of FP8."""
    for kind in (torch.float16, torch.float8_e4m3fn):
        names["validate"](64, 256, 128, kind)


def block_scaled(names: dict[str, Any]) -> None:
    """Compute a product of matrices for formats with scales of blocks. It fails with its others,
    which cuBLAS does not have.
    """
    validate = names["validate_block_scaled"]
    validate.__globals__["cublas"] = None
    for kind in ("nvfp4", "mxfp8"):
        validate(128, 256, 256, kind)


def dependent_launch(names: dict[str, Any]) -> None:
    """Add vectors with and without programmatic dependent launches."""
    names["validate"](1024)
    x, y = torch.rand(3000), torch.rand(3000)
    names["add"](x, y, launch_pdl=False)


def smaller(path: Path) -> Path:
    """Write a smaller copy, and return its path. Triton reads the sources of functions there. What
    is compiled alone keeps its sizes.
    """
    text = path.read_text(encoding="utf-8")
    replaced = {} if os.environ.get("COMPILE_ONLY") else REPLACED[path.name[:2]]
    for before, after in replaced.items():
        if before not in text:
            raise SystemExit(f"{path.name} has no {before!r}")
        text = text.replace(before, after)
    copy = Path(path.name).absolute()
    copy.write_text(text, encoding="utf-8")
    return copy


def address_tensors(copy: Path) -> None:
    """Let the tensors of addresses that a tutorial makes have those of the simulated GPU."""
    in_launch: Callable[[torch.Tensor], int] = torch.Tensor.data_ptr

    def data_ptr(tensor: torch.Tensor) -> int:
        if sys._getframe(1).f_code.co_filename == str(copy):
            return peers_torch.copy_of(tensor, peers_torch.addressed)
        return in_launch(tensor)

    torch.Tensor.data_ptr = data_ptr


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
    copy = smaller(path)
    address_tensors(copy)
    names = runpy.run_path(str(copy), run_name=path.stem)
    # The grouped product is computed when the tutorial is imported.
    if path.name[:2] in CALLS:
        CALLS[path.name[:2]](names)


main(Path(sys.argv[-1]))
