"""The payloads of WebGPU: WGSL."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from devmod_readers.payloads import check_names
from devmod_readers.payloads._dimensions import Language, text_dimensions
from devmod_readers.wgsl import read_wgsl

if TYPE_CHECKING:
    from devmod.backend import Binary
    from devmod_readers.payloads import Functions

_WGSL = Language(
    r"@compute\b",
    "num_workgroups",
    parameter=r"@builtin\s*\(\s*(?:global_invocation_id|workgroup_id)\s*\)\s*(\w+)",
)


def check(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload."""
    names = read_wgsl(str(data, "utf-8"), "the webgpu shader")
    check_names("webgpu", fmt, names, functions)
    return True


#: The dimensions in which a function reads its place.
dimensions = partial(text_dimensions, {"wgsl": _WGSL})
