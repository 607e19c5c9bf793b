"""An interpreter of PTX: it runs in NumPy what NVRTC and clang compile, on a machine without a GPU."""

from .columns import Launch
from .errors import PtxError
from .machine import Machine, run_ptx
from .module import Module
from .reports import Report
from .sanitizer import Sanitizer

__all__ = ["Launch", "Machine", "Module", "PtxError", "Report", "Sanitizer", "run_ptx"]
