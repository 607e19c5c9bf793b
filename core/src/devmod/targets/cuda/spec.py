"""CUDA: source, PTX, cubin and fatbin payloads, one binary a module.

Variants: "sm_90", "sm_90a", "compute_90:ptx8.4", "sm_80,sm_90" (architecture.py says what runs where).
"""

from __future__ import annotations

from devmod.targets import TargetSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._payload import Binary


def _architecture(fmt: str, code: Binary) -> str:
    from devmod.targets.cuda.architecture import architecture

    return architecture(fmt, code)


def _rank(variant: str, arch: str) -> int | None:
    from devmod.targets.cuda.architecture import rank

    return rank(variant, arch)


SPEC = TargetSpec(
    "cuda",
    title="CUDA",
    distribution="devmod-cuda",
    formats=("cuda", "ptx", "cubin", "fatbin"),
    text_formats=("cuda", "ptx"),
    source_formats=("cuda",),
    source_keys=("cuda",),
    default_source=("cuda",),
    suffixes={"cu": "cuda", "cuda": "cuda", "ptx": "ptx", "cubin": "cubin", "fatbin": "fatbin"},
    languages={"cu": "CUDA C++"},
    compiled_as={"elf": "cubin", "text": "ptx"},
    architecture=_architecture,
    rank=_rank,
)
