"""Kernels that Triton compiled. The functions need devmod-targets, whose `devmod_targets.interop.triton` describes them in full."""

from __future__ import annotations

from devmod.interop import reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod._modules.module import Module

__all__ = ["load"]


def load(kernel: Any, fmt: str = "") -> Module:
    """Return the module of a kernel that Triton compiled; `fmt` is "cubin" or "ptx", "hsaco" for AMD, or "" for the binary."""
    module: Module = reader("devmod_targets.interop.triton").load(kernel, fmt)
    return module
