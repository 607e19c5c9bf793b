"""The names of HIP and of CUDA that differ by their first part: functions for the host, constants,
complex numbers.
"""

from __future__ import annotations

import re
from functools import cache

from devmod_targets._text import header_text

#: Pairs of names with another difference, of HIP and of CUDA.
_PAIRS = {
    "hipDeviceProp_t": "cudaDeviceProp",
    "hipErrorOutOfMemory": "cudaErrorMemoryAllocation",
    "hipFuncCache_t": "cudaFuncCache",
    "hipHostFree": "cudaFreeHost",
    "hipHostMalloc": "cudaMallocHost",
}
for _name in ("Default", "Mapped", "Portable", "WriteCombined"):
    _PAIRS[f"hipHostMalloc{_name}"] = f"cudaHostAlloc{_name}"
for _name in ("Complex", "FloatComplex", "DoubleComplex"):
    _PAIRS[f"hip{_name}"] = f"cu{_name}"
    _PAIRS[f"make_hip{_name}"] = f"make_cu{_name}"
for _name in ("Creal", "Cimag", "Conj", "Cabs", "Cadd", "Csub", "Cmul", "Cdiv", "Cfma"):
    _PAIRS[f"hip{_name}"] = f"cu{_name}"
    _PAIRS[f"hip{_name}f"] = f"cu{_name}f"
#: Objects that devmod's headers of HIP do not have.
_OBJECTS = {
    "hipSurfaceObject_t": "cudaSurfaceObject_t",
    "hipTextureObject_t": "cudaTextureObject_t",
}


@cache
def renaming_header(*, to_hip: bool) -> str:
    """Return a header that defines CUDA's names as those of HIP, or HIP's names as those of
    CUDA.
    """
    functions = header_text("devmod_targets.rocm", "headers/hip/hip_runtime_api.h")
    pairs: dict[str, str] = {}
    for name in re.findall(r"\bhip[A-Z]\w*", functions):
        if name != "hipLaunchKernelGGL":  # a macro of each side's own header
            other = f"cuda{name[3:]}"
            pairs[name] = other.replace("cudaDeviceAttribute", "cudaDevAttr")
    constants = header_text("devmod_targets.rocm", "headers/hip/hip_math_constants.h")
    for name in re.findall(r"#define (HIP_\w+)", constants):
        pairs[name] = f"CUDART_{name[4:]}"
    pairs |= _PAIRS
    if to_hip:
        defines = {cuda: hip for hip, cuda in pairs.items()}
    else:
        defines = pairs | _OBJECTS
    lines = [f"#define {name} {other}\n" for name, other in sorted(defines.items())]
    return "".join(["#pragma once\n", *lines])
