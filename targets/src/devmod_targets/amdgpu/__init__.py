"""The reader of AMD's code objects. It needs no driver and no ROCm.

- `read_code_object` returns the kernels of a code object with the places of their arguments and their limits.

It raises `devmod.FormatError` for a file that is damaged.
"""

from __future__ import annotations

from devmod_targets.amdgpu._notes import ArgumentPlace as ArgumentPlace
from devmod_targets.amdgpu._notes import CodeObjectKernel as CodeObjectKernel
from devmod_targets.amdgpu._notes import read_code_object as read_code_object

__all__ = ["ArgumentPlace", "CodeObjectKernel", "read_code_object"]
