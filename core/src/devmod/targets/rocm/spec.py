"""ROCm: code objects and HIP source, one binary a module.

Variants: "gfx90a", "gfx90a:sramecc+:xnack-", "gfx11-generic" (architecture.py says what runs where).
"""

from __future__ import annotations

from devmod.targets import TargetSpec

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
    architecture="devmod.targets.rocm.architecture:architecture",
    rank="devmod.targets.rocm.architecture:rank",
)
