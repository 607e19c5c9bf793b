"""Stand-ins for Apple's Metal: kernels that a C++ compiler builds for the CPU, and a double of the
framework of pyobjc.
"""

from .cpu import Sampler, Texture, compile_kernel, missing
from .framework import FrameworkDouble

__all__ = ["FrameworkDouble", "Sampler", "Texture", "compile_kernel", "missing"]
