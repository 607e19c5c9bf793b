"""CUDA: source, PTX, cubin and fatbin payloads, one binary a module."""

from __future__ import annotations

from devmod.targets import TargetSpec

SPEC = TargetSpec(
    "cuda",
    title="CUDA",
    distribution="devmod-cuda",
    formats=("cuda", "ptx", "cubin", "fatbin"),
    text_formats=("cuda", "ptx"),
    source_keys=("cuda",),
    default_source=("cuda",),
    suffixes={"cu": "cuda", "cuda": "cuda", "ptx": "ptx", "cubin": "cubin", "fatbin": "fatbin"},
    languages={"cu": "CUDA C++"},
    compiled_as={"elf": "cubin", "text": "ptx"},
)
