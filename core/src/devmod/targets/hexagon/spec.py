"""Hexagon: one shared object a module.

Variants: "v68", "v67t" (architecture.py says what runs where).
"""

from __future__ import annotations

from devmod.targets import TargetSpec

SPEC = TargetSpec(
    "hexagon",
    title="Hexagon",
    distribution="devmod-hexagon",
    formats=("so",),
    source_keys=("asm", "ir", "obj", "bc"),
    default_source=("asm",),
    has_grid=False,
    compiled_as={"elf": "so"},
    architecture="devmod.targets.hexagon.architecture:architecture",
    rank="devmod.targets.hexagon.architecture:rank",
)
