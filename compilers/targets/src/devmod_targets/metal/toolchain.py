"""What the payloads of Metal depend on, and its smallest kernel."""

from __future__ import annotations

from devmod_targets._toolchain import SmallKernel, Toolchain


def _versions(target: str) -> tuple[str, ...] | None:
    """Return None for a metallib: the version of Xcode cannot be read without running it."""
    if "metallib" in target:
        return None
    return ()


TOOLCHAIN = Toolchain(
    __package__,
    SmallKernel("small_kernel.metal"),
    entries={"metal": r"\bkernel\b"},
    local={"metal": "threadgroup"},
    wheels=("libclang",),
    versions=_versions,
    subgroup_hint="Metal cannot require a size: read [[threads_per_simdgroup]] in the kernel",
    is_embedded=True,
)
