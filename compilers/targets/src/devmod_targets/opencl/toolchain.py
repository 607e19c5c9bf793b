"""What the payloads of OpenCL depend on, and its smallest kernel."""

from __future__ import annotations

from devmod_targets._toolchain import SmallKernel, Toolchain

TOOLCHAIN = Toolchain(
    __package__,
    SmallKernel("small_kernel.cl"),
    entries={"cl": r"\b(?:__)?kernel\b"},
    local={"cl": "(?:__)?local"},
    wheels=("libclang", "ziglang"),
    subgroup_hint="OpenCL C requires a size by an attribute of the kernel: __attribute__((intel_reqd_sub_group_size({})))",
)
