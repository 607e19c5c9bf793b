"""Hexagon: one shared object a module.

Variants: "v68", "v67t" (architecture.py says what runs where).
"""

from __future__ import annotations

from devmod.targets import TargetSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._payload import Binary


def _architecture(fmt: str, code: Binary) -> str:
    from devmod.targets.hexagon.architecture import architecture

    return architecture(fmt, code)


def _rank(variant: str, arch: str) -> int | None:
    from devmod.targets.hexagon.architecture import rank

    return rank(variant, arch)


SPEC = TargetSpec(
    "hexagon",
    title="Hexagon",
    distribution="devmod-hexagon",
    formats=("so",),
    source_keys=("asm", "ir", "obj", "bc"),
    default_source=("asm",),
    has_grid=False,
    compiled_as={"elf": "so"},
    architecture=_architecture,
    rank=_rank,
)
