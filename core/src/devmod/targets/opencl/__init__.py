"""OpenCL: C source, a program binary, or a vendor's binary. A module has one of them. No SPIR-V (R16)."""

from __future__ import annotations

from devmod._values.spec import TargetSpec

SPEC = TargetSpec(
    "opencl",
    title="OpenCL",
    distribution="devmod-opencl",
    formats=("cl", "clbin", "xclbin", "awsxclbin", "aocx"),
    text_formats=("cl",),
    source_keys=("cl",),
    default_source=("cl",),
    languages={"cl": "OpenCL C"},
    preprocessed=("OpenCL C",),
    compiler="devmod_targets.opencl.compile:compile",
    build_extra="build-opencl",
    compiled_as={"elf": "clbin", "pocl": "clbin", "text": "cl"},
)


def supports_option(option: str) -> bool:
    """Return whether a source payload may have a build option. Drivers take others, some of which write files (``-save-temps=``)."""
    import re

    return re.fullmatch(r"-[DU].*|-(?:cl|qcom)-[\w-]+(?:=[\w.+-]+)?|-w|-Werror|-g|-O[0-5]?|[A-Za-z0-9]+", option, re.ASCII) is not None
