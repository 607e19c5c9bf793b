"""The readers of AMD's code objects. They need no driver and no ROCm.

- `read_code_object` returns the kernels of a code object with the places of their arguments and their limits.
- `check_code_object` checks that a code object is complete, before a driver loads it.

They raise `devmod.FormatError` for a file that is damaged.
"""

from __future__ import annotations

from devmod_readers.amdgpu._notes import ArgumentPlace as ArgumentPlace
from devmod_readers.amdgpu._notes import CodeObjectKernel as CodeObjectKernel
from devmod_readers.amdgpu._notes import check_code_object as check_code_object
from devmod_readers.amdgpu._notes import read_code_object as read_code_object

__all__ = ["ArgumentPlace", "CodeObjectKernel", "check_code_object", "read_code_object"]
