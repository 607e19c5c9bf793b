"""An interpreter of PTX for tests: it runs in NumPy what NVRTC and clang compile, on a machine without a GPU."""

from .columns import Launch
from .errors import PtxError
from .execution import run
from .machine import Machine, run_ptx
from .memory import Arena
from .module import Module

__all__ = ["Arena", "Launch", "Machine", "Module", "PtxError", "run", "run_ptx"]
