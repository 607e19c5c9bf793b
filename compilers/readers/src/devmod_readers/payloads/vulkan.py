"""The payloads of Vulkan: SPIR-V behind a flag and the number of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devmod_readers.payloads import check_names, spirv_names
from devmod_readers.spirv import GL_COMPUTE, read_axes, read_module

if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod.backend import Binary
    from devmod_readers.payloads import Functions

#: The bytes before the SPIR-V.
_HEADER = 12


def check(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload."""
    names = spirv_names("vulkan shader", data[_HEADER:], GL_COMPUTE)
    check_names("vulkan", fmt, names, functions)
    return True


def dimensions(_fmt: str, data: Binary, _name: str, _info: FunctionInfo) -> int:
    """Return the dimensions in which a shader reads its place."""
    return read_axes(read_module(data[_HEADER:]))
