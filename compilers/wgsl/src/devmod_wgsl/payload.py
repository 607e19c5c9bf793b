"""The check of WebGPU's payloads, which the kind's TargetSpec names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devmod_readers.payloads import check_names
from devmod_wgsl import read_wgsl

if TYPE_CHECKING:
    from devmod.backend import Binary
    from devmod_readers.payloads import Functions


def check(fmt: str, data: Binary, functions: Functions) -> bool:
    """Check a payload."""
    names = read_wgsl(str(data, "utf-8"), "the webgpu shader")
    check_names("webgpu", fmt, names, functions)
    return True
