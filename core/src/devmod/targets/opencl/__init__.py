"""OpenCL: C source, SPIR-V, a program binary, or a vendor's binary.

A module has one of them (R16).
"""

from __future__ import annotations

from devmod._values.spec import TargetSpec

SPEC = TargetSpec(
    "opencl",
    title="OpenCL",
    distribution="devmod-opencl",
    formats=("cl", "il", "clbin", "xclbin", "awsxclbin", "aocx"),
    text_formats=("cl",),
    source_keys=("cl",),
    default_source=("cl",),
    languages={"cl": "OpenCL C"},
    preprocessed=("OpenCL C",),
    compiler="devmod_targets.opencl.compile:compile",
    toolchain="devmod_targets.opencl.toolchain:TOOLCHAIN",
    build_extra="build-opencl",
    compiled_as={"elf": "clbin", "pocl": "clbin", "spirv": "il", "text": "cl"},
    has_conditions=True,
    check="devmod_readers.payloads.opencl:check",
    dimensions="devmod_readers.payloads.opencl:dimensions",
)
