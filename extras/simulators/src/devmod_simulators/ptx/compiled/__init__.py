"""Compiled execution of PTX: LLVM compiles kernels, and engine.c runs their warps on all cores.

The interpreter executes what is not compiled. It is the oracle: both have the same results.
"""

from __future__ import annotations
