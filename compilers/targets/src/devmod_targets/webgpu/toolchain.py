"""What the payloads of WebGPU depend on, and its smallest kernel."""

from __future__ import annotations

import os
from collections.abc import Sequence

from devmod_targets._toolchain import SmallKernel, Toolchain


def _naga(_options: Sequence[str]) -> list[str]:
    from devmod_targets.webgpu._naga import find_package

    package = find_package()
    if not package:
        return []
    return [os.path.join(package, "dist", "wasm", "naga_bg.wasm")]


TOOLCHAIN = Toolchain(
    __package__,
    SmallKernel("small_kernel.wgsl"),
    entries={"wgsl": r"@\s*compute\b"},
    programs=("naga",),
    files=_naga,
    subgroup_hint="WebGPU cannot require a size: a device chooses one between its subgroupMinSize and subgroupMaxSize; read "
    "@builtin(subgroup_size) in the shader",
    is_embedded=True,
)
