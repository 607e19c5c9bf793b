"""What the payloads of Vulkan depend on, and its smallest kernel."""

from __future__ import annotations

from devmod_targets._toolchain import SmallKernel, Toolchain
from devmod_targets.vulkan._clspv import clspv_files

TOOLCHAIN = Toolchain(
    __package__,
    SmallKernel("small_kernel.comp"),
    entries={
        "comp": r"\bvoid\s+main\b",
        "glsl": r"\bvoid\s+main\b",
        "hlsl": r"\[\s*numthreads\b",
    },
    ambiguous=("spv",),
    wheels=("slangpy", "pyclspv", "libclang"),
    programs=(
        "glslangValidator",
        "glslang",
        "glslc",
        "dxc",
        "spirv-opt",
        "spirv-val",
        "spirv-dis",
        "clspv",
    ),
    files=clspv_files,
    requires_subgroups=True,
    is_embedded=True,
)
