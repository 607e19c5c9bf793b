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
    # Where to change: a source language
    #   here: `SPEC` of each kind that takes it, such as
    #     `core/src/devmod/targets/opencl/__init__.py` (`languages`), and its suffix in
    #     `core/src/devmod/targets/__init__.py` (`NAMES`)
    #   also: the kind's compiler, such as `compilers/targets/src/devmod_targets/opencl/compile.py`;
    #     `compilers/targets/src/devmod_targets/compilation.py` (`_FRONT_ENDS`) for one compiler for
    #     several kinds; the kind's `toolchain.py` (`entries`), or
    #     `compilers/targets/src/devmod_targets/build/skeleton.py` (`_ENTRIES`) for a language of
    #     several kinds, for `devmod init`
    #   tests: `tests/test_two_places.py`, `core/tests/test_registry.py`
    languages={"cl": "OpenCL C"},
    preprocessed=("OpenCL C",),
    compiler="devmod_targets.opencl.compile:compile",
    toolchain="devmod_targets.opencl.toolchain:TOOLCHAIN",
    build_extra="build-opencl",
    compiled_as={"elf": "clbin", "pocl": "clbin", "spirv": "il", "text": "cl"},
    has_conditions=True,
    check="devmod_readers.payloads.opencl:check",
    dimensions="devmod_readers.payloads.opencl:dimensions",
    handles={"pyopencl": ("CommandQueue", "Context", "Device")},
)
