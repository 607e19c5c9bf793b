"""CUDA: source, PTX, cubin and fatbin payloads. A module has one binary.

Variants: "sm_90", "sm_90a", "compute_90:ptx8.4", "sm_80,sm_90" (architecture.py has the rules).
"""

from __future__ import annotations

from devmod._values.spec import TargetSpec

SPEC = TargetSpec(
    "cuda",
    title="CUDA",
    distribution="devmod-cuda",
    formats=("cuda", "ptx", "cubin", "fatbin"),
    text_formats=("cuda", "ptx"),
    source_formats=("cuda",),
    headers=("",),
    assembler=False,  # PTX has no such directive
    source_keys=("cuda", "ptx", "ll"),
    default_source=("cuda",),
    suffixes={"cu": "cuda", "cuda": "cuda", "ptx": "ptx", "cubin": "cubin", "fatbin": "fatbin"},
    languages={
        "cu": "CUDA C++",
        "hip": "HIP",
        "slang": "Slang",
        "py": "Triton",
        "ptx": "PTX",
        "cubin": "cubin",
        "fatbin": "fatbin",
    }
    | {"ll": "LLVM IR", "bc": "LLVM bitcode", "cl": "OpenCL C"},
    preprocessed=("CUDA C++", "HIP", "OpenCL C", "Slang", "Triton"),
    compiler="devmod_targets.cuda.compile:compile",
    toolchain="devmod_targets.cuda.toolchain:TOOLCHAIN",
    build_extra="build-cuda",
    needs_arch=dict.fromkeys(
        ("CUDA C++", "HIP", "OpenCL C", "Slang", "Triton"), "sm_80,sm_90,compute_90"
    )
    | dict.fromkeys(("LLVM IR", "LLVM bitcode"), "compute_80"),
    compiled_as={"elf": "cubin", "fatbin": "fatbin", "text": "ptx"},
    architecture="devmod.targets.cuda.architecture:architecture",
    rank="devmod.targets.cuda.architecture:rank",
    check="devmod_readers.payloads.cuda:check",
    dimensions="devmod_readers.payloads.cuda:dimensions",
    handles={
        "cuda": ("Context", "Device", "Stream"),
        "cupy": ("Stream", "ExternalStream"),
        "numba": ("Context", "Stream"),
        "pycuda": ("Context", "Stream"),
        "torch": ("Stream", "ExternalStream"),
    },
)
