"""An interpreter of PTX: it runs in NumPy what NVRTC and clang compile, on a machine without a
GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devmod_simulators.ptx.columns import Launch
from devmod_simulators.ptx.errors import PtxError
from devmod_simulators.ptx.machine import Machine, parameter_block, run_ptx
from devmod_simulators.ptx.module import Module

if TYPE_CHECKING:
    from devmod_simulators.ptx.checked import launch_with_checks
    from devmod_simulators.ptx.reports import Report
    from devmod_simulators.ptx.sanitizer import Sanitizer

__all__ = [
    "Launch",
    "Machine",
    "Module",
    "PtxError",
    "Report",
    "Sanitizer",
    "launch_with_checks",
    "parameter_block",
    "run_ptx",
]


def __getattr__(name: str) -> Any:
    """Import the checks with their first use: a worker without checks starts without them."""
    if name not in ("Report", "Sanitizer", "launch_with_checks"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from devmod_simulators.ptx import checked

    return getattr(checked, name)
