"""A kernel that adds 1 to each element, for processes of the tests."""

from __future__ import annotations

from typing import Any

import devmod

SOURCES = {
    "opencl": "__kernel void bump(__global unsigned *x) { x[get_global_id(0)] += 1; }",
    "vulkan": "#version 450\nlayout(local_size_x = 64) in;\nlayout(set = 0, binding = 0) buffer X { uint x[]; };\n"
    "void main() { x[gl_GlobalInvocationID.x] += 1u; }\n",
    "webgpu": "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n"
    "@compute @workgroup_size(64) fn bump(@builtin(global_invocation_id) i: vec3<u32>) { x[i.x] += 1u; }\n",
}


def module_of(kind: str) -> Any:
    """A new module with the function `bump`."""
    return devmod.compile(SOURCES[kind], kind, name="bump" if kind == "vulkan" else None)
