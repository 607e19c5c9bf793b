"""Stand-ins for Apple's Metal: kernels that a C++ compiler builds for the CPU, and a double of the
framework of pyobjc.

`compile_kernel` knows the names of the language that the examples and TVM use, with SIMD-groups,
textures and samplers. It shows nothing of Metal's compiler, address spaces and precision.
`FrameworkDouble` executes nothing: it checks calls with pyobjc's metadata.
"""

from __future__ import annotations

from metal_standin.cpu import Sampler, Texture, compile_kernel, missing
from metal_standin.framework import FrameworkDouble

__all__ = ["FrameworkDouble", "Sampler", "Texture", "compile_kernel", "missing"]
