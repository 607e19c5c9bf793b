"""ROCm: code objects and HIP source, one binary a module.

Variants: "gfx90a", "gfx90a:sramecc+:xnack-", "gfx11-generic" (architecture.py says what runs where).
"""

from __future__ import annotations

from devmod.targets import TargetSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._payload import Binary


def _architecture(fmt: str, code: Binary) -> str:
    from devmod.targets.rocm.architecture import architecture

    return architecture(fmt, code)


def _rank(variant: str, arch: str) -> int | None:
    from devmod.targets.rocm.architecture import rank

    return rank(variant, arch)


SPEC = TargetSpec(
    "rocm",
    title="ROCm",
    distribution="devmod-rocm",
    formats=("hsaco", "hip"),
    text_formats=("hip",),
    source_keys=("hip", "asm", "ll"),
    default_source=("hip", "asm", "ll"),
    aliases=("hsaco", "hip"),
    languages={"hip": "HIP"},
    compiled_as={"elf": "hsaco", "text": "hip"},
    architecture=_architecture,
    rank=_rank,
)
