"""CUDA C++ compiled with NVRTC to PTX."""

from __future__ import annotations

from functools import cache

from devmod_targets.cuda.nvrtc import compile_program


@cache
def ptx_of(source: str, *options: str) -> str:
    """Return the PTX of CUDA C++, for compute_90 unless the options name an architecture."""
    if not any(option.startswith("--gpu-architecture") for option in options):
        options = ("--gpu-architecture=compute_90", *options)
    return compile_program(source, "kernel.cu", list(options)).ptx.rstrip(b"\0").decode()
