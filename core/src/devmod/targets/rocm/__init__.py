"""ROCm: code objects and HIP source. A module has one binary.

Variants: "gfx90a", "gfx90a:sramecc+:xnack-", "gfx11-generic" (architecture.py has the rules).
"""

from __future__ import annotations

from devmod._values.spec import TargetSpec

SPEC = TargetSpec(
    "rocm",
    title="ROCm",
    distribution="devmod-rocm",
    formats=("hsaco", "hip"),
    text_formats=("hip",),
    headers=("hip/",),
    source_keys=("hip", "asm", "ll"),
    source_aliases={"llvm": "ll"},
    default_source=("hip", "asm", "ll"),
    aliases=("hsaco", "hip"),
    languages={"hip": "HIP", "cu": "CUDA C++", "slang": "Slang", "py": "Triton"}
    | {"ll": "LLVM IR", "bc": "LLVM bitcode", "s": "assembly", "cl": "OpenCL C"},
    preprocessed=("HIP", "CUDA C++", "OpenCL C", "Slang", "Triton"),
    compiler="devmod_targets.rocm.compile:compile",
    toolchain="devmod_targets.rocm.toolchain:TOOLCHAIN",
    build_extra="build-rocm",
    needs_arch=dict.fromkeys(
        ("HIP", "CUDA C++", "OpenCL C", "Slang", "Triton", "LLVM IR", "LLVM bitcode", "assembly"),
        "gfx90a,gfx1100",
    ),
    compiled_as=dict.fromkeys(
        ("elf", "offload_bundle", "compressed_offload_bundle", "offload_binary"), "hsaco"
    )
    | {"text": "hip"},
    architecture="devmod.targets.rocm.architecture:architecture",
    rank="devmod.targets.rocm.architecture:rank",
    tvm_kind="hip",
    check="devmod_readers.payloads.rocm:check",
    dimensions="devmod_readers.payloads.rocm:dimensions",
    handles={
        "cupy": ("Stream", "ExternalStream"),
        "hip": ("ihipStream_t",),
        "rocm": ("ihipStream_t",),
        "torch": ("Stream", "ExternalStream"),
    },
)
