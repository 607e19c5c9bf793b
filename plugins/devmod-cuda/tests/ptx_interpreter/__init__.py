"""An interpreter of PTX for tests: it runs in NumPy what NVRTC and clang compile, on a machine without a GPU."""

from .errors import PtxError
from .execution import Launch, run
from .machine import Machine, run_ptx
from .memory import Arena
from .program import Module

__all__ = ["Arena", "Launch", "Machine", "Module", "PtxError", "run", "run_ptx"]
