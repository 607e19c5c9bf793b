"""An interpreter of PTX: it runs in NumPy what NVRTC and clang compile, on a machine without a
GPU.
"""

from typing import TYPE_CHECKING, Any

from .columns import Launch
from .errors import PtxError
from .machine import Machine, run_ptx
from .module import Module

if TYPE_CHECKING:
    from .checked import launch_with_checks
    from .reports import Report
    from .sanitizer import Sanitizer

__all__ = [
    "Launch",
    "Machine",
    "Module",
    "PtxError",
    "Report",
    "Sanitizer",
    "launch_with_checks",
    "run_ptx",
]


def __getattr__(name: str) -> Any:
    """Import the checks with their first use: a worker without checks starts without them."""
    if name not in ("Report", "Sanitizer", "launch_with_checks"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import checked

    return getattr(checked, name)
