"""A translation of Vulkan's compute shaders to PTX, for the sanitizer of the simulated GPU.

`translate` takes a SPIR-V module of glslang, Slang, dxc or naga, and returns the text of a kernel
for each of its compute entry points. What has no translation is an error that names the
instruction and its line.

- A buffer is an address; behind it is the number of its elements if the shader asks for its length.
- A number of a uniform block or of the push constants is a parameter of its own.
- Variables of a thread are registers if they are accessed by constant indices only, else local
  memory. A value that nothing wrote is loaded from local memory that nothing wrote.
- Functions are inlined. A workgroup is a block of threads, a subgroup is a warp.
- `sin`, `exp`, `log`, `pow` and others of GLSL are the approximations of PTX.
"""

from __future__ import annotations

from devmod_targets.spirv_ptx._translate import Translation, translate

__all__ = ["Translation", "translate"]
