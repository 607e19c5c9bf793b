"""Readers of NVIDIA's images: PTX, cubins and fatbins. They need no driver and no toolkit."""

from __future__ import annotations

from devmod_targets.nvidia._entry import KernelEntry as KernelEntry
from devmod_targets.nvidia._entry import ParamPlace as ParamPlace

__all__ = ["KernelEntry", "ParamPlace"]
