"""Hexagon: a module has one shared object.

Variants: "v68", "v67t" (architecture.py has the rules).
"""

from __future__ import annotations

from devmod._values.spec import TargetSpec

SPEC = TargetSpec(
    "hexagon",
    title="Hexagon",
    distribution="devmod-hexagon",
    formats=("so",),
    source_keys=("asm", "ir", "obj", "bc"),
    source_aliases={"s": "asm", "ll": "ir"},
    default_source=("asm",),
    languages={
        "c": "C",
        "cpp": "C++",
        "slang": "Slang",
        "ll": "LLVM IR",
        "bc": "LLVM bitcode",
        "s": "assembly",
        "o": "object",
    },
    preprocessed=("C", "C++", "Slang"),
    compiler="devmod_targets.hexagon.compile:compile",
    toolchain="devmod_targets.hexagon.toolchain:TOOLCHAIN",
    build_extra="build-hexagon",
    needs_arch=dict.fromkeys(
        ("C", "C++", "Slang", "LLVM IR", "LLVM bitcode", "assembly", "object"), "v68"
    ),
    has_grid=False,
    compiled_as={"elf": "so"},
    architecture="devmod.targets.hexagon.architecture:architecture",
    rank="devmod.targets.hexagon.architecture:rank",
    check="devmod_readers.payloads.hexagon:check",
)
