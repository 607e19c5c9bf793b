"""The payloads of WebGPU: WGSL. `devmod_wgsl.payload` checks them."""

from __future__ import annotations

from functools import partial

from devmod_readers.payloads._dimensions import Language, text_dimensions

_WGSL = Language(
    r"@compute\b",
    "num_workgroups",
    parameter=r"@builtin\s*\(\s*(?:global_invocation_id|workgroup_id)\s*\)\s*(\w+)",
)

#: The dimensions in which a function reads its place.
dimensions = partial(text_dimensions, {"wgsl": _WGSL})
