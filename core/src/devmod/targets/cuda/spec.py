"""CUDA: source, PTX, cubin and fatbin payloads, one binary a module.

Variants: "sm_90", "sm_90a", "compute_90:ptx8.4", "sm_80,sm_90" (architecture.py says what runs where).
"""

from __future__ import annotations

from devmod.targets import TargetSpec

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
    architecture="devmod.targets.cuda.architecture:architecture",
    rank="devmod.targets.cuda.architecture:rank",
)
