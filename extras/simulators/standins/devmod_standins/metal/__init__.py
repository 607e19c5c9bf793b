"""Stand-ins for Apple's Metal: kernels that a C++ compiler builds for the CPU, and a double of the
framework of pyobjc.
"""

from __future__ import annotations

from devmod_standins.metal.cpu import Sampler, Texture, compile_kernel, missing
from devmod_standins.metal.framework import FrameworkDouble

__all__ = ["FrameworkDouble", "Sampler", "Texture", "compile_kernel", "missing"]
