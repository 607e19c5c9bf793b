"""What `devmod.doctor` checks of the build side: whether a small kernel of each kind compiles here,
and by which compiler.
"""

from __future__ import annotations

from pluggy import HookimplMarker

from devmod import Target
from devmod.errors import DevmodError, ToolchainNotFoundError
from devmod.plugins import find_spec
from devmod_targets.compilation import compile_source

_C = "void f(float *x, int n) { for (int i = 0; i < n; ++i) x[i] = 1; }"
_CUDA = 'extern "C" __global__ void f(float *x) { x[threadIdx.x] = 1; }'
#: Of each kind, a target and a kernel for it.
_KERNELS = {
    "cuda": ("cuda -arch=compute_80", _CUDA),
    "rocm": ("rocm -arch=gfx1100", _CUDA),
    "metal": (
        "metal",
        "kernel void f(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = 1; }",
    ),
    "vulkan": (
        "vulkan",
        "#version 450\nlayout(local_size_x = 1) in;\nlayout(binding = 0) buffer X { float x[]; };\nvoid main() { x[0] = 1; }",
    ),
    "opencl": ("opencl", "kernel void f(global float *x) { x[get_global_id(0)] = 1; }"),
    "hexagon": ("hexagon -arch=v68", _C),
    "webgpu": (
        "webgpu",
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn f() { x[0] = 1; }",
    ),
}


@HookimplMarker("devmod")
def devmod_doctor(kind: str) -> list[tuple[str, str, str]]:
    """Return whether a kernel of the kind compiles."""
    spec = find_spec(kind)
    if spec is None or kind not in _KERNELS:
        return []
    target, text = _KERNELS[kind]
    try:
        module = compile_source(
            spec, text, Target.parse(target), name="f", runtime=False, listings=False
        )
    except ToolchainNotFoundError as error:
        return [("compiler", "not installed", str(error))]
    except DevmodError as error:
        return [("compiler", "problem", str(error))]
    return [
        (
            "compiler",
            "ok",
            f"compiles by {module.origin.toolchain if module.origin else 'its compiler'}",
        )
    ]
