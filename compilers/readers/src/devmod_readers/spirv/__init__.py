"""A reader of SPIR-V for compilers and runtimes. It returns the compute entry points of a module
with their resources and constants, and the kernels of a module of OpenCL.

It needs no toolchain and no device. `read_module` and `reflect` raise `devmod.FormatError` for a
module that is damaged, newer than this reader, or not supported. The error's text continues a
sentence that begins with the module, such as "the SPIR-V of k.spv".
"""

from __future__ import annotations

from devmod_readers.spirv._clspv import ClspvKernel, LaunchConstants, relax_atomics
from devmod_readers.spirv._constants import SpirvConstants
from devmod_readers.spirv._fences import with_atomic_fences
from devmod_readers.spirv._functions import (
    SpirvBlock,
    SpirvCode,
    SpirvFunction,
    SpirvInstruction,
    SpirvLine,
    read_code,
)
from devmod_readers.spirv._kernels import (
    KERNEL,
    KernelArgument,
    SpirvKernel,
    read_imports,
    read_kernels,
)
from devmod_readers.spirv._lines import line_of
from devmod_readers.spirv._loops import loses_turns, with_exits_first
from devmod_readers.spirv._module import GL_COMPUTE, EntryPoint, SpirvModule, read_module
from devmod_readers.spirv._reflect import reflect
from devmod_readers.spirv._uses import read_axes, read_lengths, read_samplings

__all__ = [
    "GL_COMPUTE",
    "KERNEL",
    "ClspvKernel",
    "EntryPoint",
    "KernelArgument",
    "LaunchConstants",
    "SpirvBlock",
    "SpirvCode",
    "SpirvConstants",
    "SpirvFunction",
    "SpirvInstruction",
    "SpirvKernel",
    "SpirvLine",
    "SpirvModule",
    "line_of",
    "loses_turns",
    "read_axes",
    "read_code",
    "read_imports",
    "read_kernels",
    "read_lengths",
    "read_module",
    "read_samplings",
    "reflect",
    "relax_atomics",
    "with_atomic_fences",
    "with_exits_first",
]
